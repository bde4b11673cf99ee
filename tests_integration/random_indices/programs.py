"""`drawn`: a random program of views and arithmetic with positions, as text. Eager runs it while it is drawn, and refuses what is unsound.

Out: a `Program`. Floats are small multiples of a power of two as long as anything is decided by them, so that sums in another order decide alike.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import replace
from random import Random

import torch

from .drawer import MOST, SIZES, Drawer, Family, Unsound, is_small
from .program import Program, names
from .values import decided, float_, in_place, inexact, logical, reduced, whole
from .views import image, indexed, join, numbered, pad, scattered, view

FAMILIES: dict[Family, int] = {
    view: 30, numbered: 12, join: 6, pad: 6, image: 4, indexed: 14, scattered: 7, whole: 18, float_: 8, decided: 4, logical: 4, reduced: 9, inexact: 1, in_place: 7,
}  # fmt: skip


def drawn(random: Random) -> Program:
    """A program that eager runs."""
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawer = Drawer(random, FAMILIES)
            try:
                for _ in range(random.randint(2, 14)):
                    drawer.statement()
            except Unsound:
                continue
            made = drawer.finished()
        if made is not None:
            return _with_others(random, made)


def _with_others(random: Random, program: Program) -> Program:
    """The program with inputs of other sizes, where eager takes some, and another number."""
    space = names("cpu")
    exec(program.text(), space)
    sizes = {n for given in program.inputs for n in given.size}
    for _ in range(6):
        # Sizes that are equal stay so: most programs need it.
        others = {n: random.choice(SIZES) if random.random() < 0.5 else n for n in sizes}
        made = tuple(replace(each, size=tuple(others[n] for n in each.size)) for each in program.inputs)
        k = random.randint(-3, 6)
        if (made, k) == (program.inputs, program.numbers[0]) or any(math.prod(each.size) > MOST for each in made):
            continue
        args = [each.make("cpu") for each in made]
        for arg in args:
            arg.requires_grad_(program.backward and arg.is_floating_point())
        with contextlib.suppress(RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            found = space["program"](*args, k)
            sums = [value.sum().to(torch.float64) for value in found if value.requires_grad]
            if sums:
                torch.stack(sums).sum().backward()
            if all(is_small(value) for value in found):
                return replace(program, others=made, numbers=(program.numbers[0], k))
    return program
