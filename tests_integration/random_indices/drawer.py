"""`Drawer`: draws lines of a program one by one, and what they compute. Eager runs them meanwhile, and refuses what is unsound."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

import torch
from torch import Tensor

from .program import Input, Program, names, reads

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31)
WHOLE = ("torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.uint8")
MOST = 5000
"""Elements of a tensor."""
LARGEST = 1 << 12
STEP = 1 / 64


class Drawer:
    """Draws lines one by one, and what they compute."""

    def __init__(self, random: Random, families: Mapping[Family, int]) -> None:
        """`families`: what draws a line, and how often."""
        self.random = random
        self._families, self._weights = tuple(families), tuple(families.values())
        self.backward = random.random() < 0.3
        self.inputs = tuple(self._input() for _ in range(random.randint(1, 3)))
        self.values: dict[str, Tensor] = {}
        self.k = random.randint(-3, 6)
        self.space = {**names("cpu"), "k": self.k}
        self.lines: list[str] = []
        self.inexact: set[str] = set()
        self.overlapping: set[str] = set()
        for at, given in enumerate(self.inputs):
            self.values[f"x{at}"] = given.make("cpu")
        if self.backward:
            for value in self.values.values():
                if value.is_floating_point():
                    value.requires_grad_()

    def _input(self) -> Input:
        random = self.random
        dims = random.choice((1, 2, 2, 3, 3, 4))
        while True:
            size = tuple(0 if random.random() < 0.01 else random.choice(SIZES) for _ in range(dims))
            if math.prod(size) <= MOST // 2:
                break
        order = list(range(dims))
        if random.random() < 0.4:
            random.shuffle(order)
        dtype = random.choice(("torch.float32", "torch.float32", "torch.float64", "torch.bool", *WHOLE, "torch.int64"))
        if self.backward and random.random() < 0.7:
            dtype = "torch.float32"
        return Input(size, dtype, tuple(order), int(random.random() < 0.2), random.randrange(1000))

    # ---- statements ----

    def statement(self) -> None:
        """One that is sound."""
        for _ in range(40):
            draw = self.random.choices(self._families, self._weights)[0]
            text = draw(self)
            if text is not None and (self._written(text) if text.startswith("!") else self._computed(text)):
                return

    def _computed(self, text: str) -> bool:
        try:
            made = eval(text, {**self.space, **self.values})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return False
        if not isinstance(made, Tensor) or made.numel() > MOST or made.dim() > 5 or made.is_complex():
            return False
        if not is_small(made):
            return False
        if made.numel() == 0 and self.random.random() < 0.8:
            return False
        name = f"v{len(self.lines)}"
        read = {each for each in self.values if reads(text, each)}
        if (
            read & self.inexact
            or (made.is_floating_point() and any(word in text for word in _ROUNDING))
            or not is_exact(made)
        ):
            self.inexact.add(name)
        if (
            read & self.overlapping
            or "as_strided" in text
            or "unfold" in text
            or "expand" in text
            or "broadcast" in text
        ):
            self.overlapping.add(name)
        self.lines.append(f"{name} = {text}")
        self.values[name] = made
        return True

    def _written(self, text: str) -> bool:
        """A statement that writes in place."""
        before = {name: value.detach().clone() for name, value in self.values.items()}
        try:
            exec(text[1:], {**self.space, **self.values})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            assert all(torch.equal(value, self.values[name].detach()) for name, value in before.items()), text
            return False
        self.lines.append(text[1:])
        sound = True
        for name, value in self.values.items():
            sound = sound and is_small(value)
            if value.is_floating_point() and not is_exact(value):
                self.inexact.add(name)
        if not sound:
            raise Unsound
        return True

    def finished(self) -> Program | None:
        """The program, with what it gives back."""
        made = [name for name in self.values if name.startswith("v")]
        if not made:
            return None
        # What nobody reads, most of it, and some of what is read.
        ends = [name for name in made if not any(reads(line.partition(" = ")[2], name) for line in self.lines)]
        ends += self.random.sample(made, min(len(made), self.random.choice((0, 0, 1, 2))))
        returns = tuple(
            dict.fromkeys(name for name in (*ends, made[-1]) if self.random.random() < 0.7 or name == made[-1])
        )
        try:
            sums = [
                value.sum().to(torch.float64) for value in map(self.values.__getitem__, returns) if value.requires_grad
            ]
            if sums:
                torch.stack(sums).sum().backward()
        except RuntimeError:  # what is needed was written to
            return None
        return Program(self.inputs, tuple(self.lines), returns, self.backward, numbers=(self.k, self.k))

    # ---- parts of expressions ----

    def pick(self, wanted: Callable[[Tensor], bool] = lambda t: True, *, exact: bool = False) -> str | None:
        """A value, of the last ones mostly."""
        found = [name for name, value in self.values.items() if wanted(value) and not (exact and name in self.inexact)]
        if not found:
            return None
        return found[-1] if self.random.random() < 0.6 else self.random.choice(found)

    def pair(self, wanted: Callable[[Tensor], bool], *, exact: bool = False) -> tuple[str, str] | None:
        """A value and what broadcasts with it."""
        name = self.pick(wanted, exact=exact)
        return None if name is None else (name, self._operand(name, exact))

    def _operand(self, name: str, exact: bool) -> str:
        """What broadcasts with a value, of any dtype."""
        random, t = self.random, self.values[name]
        fits = []
        for other, value in self.values.items():
            if exact and other in self.inexact:
                continue
            with contextlib.suppress(RuntimeError):
                if math.prod(torch.broadcast_shapes(value.shape, t.shape)) <= MOST:
                    fits.append(other)
        kind = random.randrange(5)
        if kind == 0 and t.dim():
            return f"arange({self.size(t.size(-1))}, {self.dtype()})"
        if kind == 1 and t.dim():
            return self.arithmetic(tuple(t.shape))
        if kind == 2 and t.dim():
            return f"{name}.flip(0)"
        return random.choice(fits) if fits else name

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def slices(self, size: tuple[int, ...]) -> str:
        """What stands between brackets, of these sizes."""
        random, parts = self.random, []
        for n in size[: random.randint(1, len(size))] if size else ():
            kind = random.randrange(8)
            if kind <= 1:
                parts.append(":")
            elif kind == 2 and n:
                parts.append(str(random.randrange(-n, n)))
            elif kind == 3:
                parts.append(f"::{random.randint(1, 4)}")
            elif kind == 4:
                parts.append(f"-{random.randint(1, n + 1)}:")
            elif kind == 5:
                parts.append(f":-{random.randint(1, max(n - 1, 1))}")
            else:
                start = random.randint(0, n)
                parts.append(f"{start}:{random.randint(start, n + 2)}:{random.randint(1, 3)}")
        if random.random() < 0.15:
            parts.insert(random.randint(0, len(parts)), "None")
        if random.random() < 0.2:
            parts.insert(0, "...")
        return ", ".join(parts) or ":"

    def size(self, n: int) -> str:
        """A number, maybe as the size that it is."""
        found = [
            f"x{at}.size({dim})"
            for at, given in enumerate(self.inputs)
            for dim, size in enumerate(given.size)
            if size == n
        ]
        return self.random.choice(found) if found and self.random.random() < 0.5 else str(n)

    def shaped(self, sizes: tuple[int, ...], *, rest: bool = False) -> str:
        """Sizes as text; with `rest` one of them may be what is left."""
        texts = [self.size(n) for n in sizes]
        if rest and texts and self.random.random() < 0.4:
            texts[self.random.randrange(len(texts))] = "-1"
        return f"({', '.join(texts)},)"

    def shape(self, count: int) -> tuple[int, ...]:
        """Sizes with as many elements."""
        if count <= 1:
            return (count,)
        sizes = [count]
        for _ in range(self.number(0, 3)):
            at = self.random.randrange(len(sizes))
            divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0]
            d = self.random.choice(divisors)
            sizes[at : at + 1] = [d, sizes[at] // d]
        return tuple(sizes)

    def dtype(self) -> str:
        return self.random.choice(WHOLE)

    def positions(self, size: tuple[int, ...], bound: int, *, negative: bool = True) -> str | None:
        """Text of whole numbers of these sizes, each a position among `bound`."""
        if bound == 0:
            return None
        text = self.arithmetic(size)
        random = self.random
        for _ in range(random.randint(0, 2)):
            c = random.randint(2, 9)
            text = f"({text})"
            text = random.choice(
                (
                    f"{text} // {c}", f"{text} // -{c}", f"{text} % {c}", f"{text} * {c}", f"{text} - {c}", f"({text} + {c}) // {c}",
                    f"{text}.clamp(-{c}, {c})", f"{text}.abs()", f"-{text}", f"torch.div({text}, {c}, rounding_mode='trunc')",
                    f"{text}.to({self.dtype()})", f"torch.fmod({text}, {c})", f"{text} ^ {c}", f"{text} >> 1", f"{text} & {c}",
                    f"torch.where({text} < {c}, {text}, {text} - {c})", f"{text}.flip(0)", f"torch.minimum({text}, {text}.new_tensor({c}))",
                )
            )  # fmt: skip
        kind = random.randrange(5)
        text = f"({text}).to(torch.{random.choice(('int64', 'int64', 'int64', 'int32'))})"
        told = self.size(bound)
        if kind == 0:
            return f"{text}.clamp(0, {told} - 1)"
        if kind == 1 and negative:
            return f"({text} % {told} - {random.choice((told, str(random.randint(0, bound))))})"
        if kind == 2 and negative:
            return f"{text}.clamp(-{told}, {told} - 1)"
        if kind == 3 and negative:
            return f"torch.fmod({text}, {told})"
        return f"({text} % {told})"

    def arithmetic(self, size: tuple[int, ...]) -> str:
        """Text of whole numbers of these sizes."""
        random = self.random
        found = [
            n
            for n, v in self.values.items()
            if tuple(v.shape) == size and not v.is_floating_point() and v.dtype != torch.bool
        ]
        if found and random.random() < 0.4:
            return random.choice(found)
        dtype = f", {self.dtype()}" if random.random() < 0.4 else ""
        if len(size) == 0:
            return f"torch.tensor({random.randint(-9, 9)})"
        if random.random() < 0.4 or len(size) == 1:
            if len(size) == 1:
                return f"arange({self.size(size[0])}{dtype})"
            return f"arange({' * '.join(map(self.size, size))}{dtype}).view{self.shaped(size, rest=True)}"
        # relative to each other, as positions are that bias attention
        parts = []
        for dim, n in enumerate(size):
            index = ["None"] * len(size)
            index[dim] = ":"
            parts.append(f"arange({self.size(n)}{dtype})[{', '.join(index)}]")
        text = parts[0]
        for part in parts[1:]:
            text = f"({text} {random.choice('+--*')} {part})"
        return text


Family: TypeAlias = Callable[[Drawer], "str | None"]
"""Draws the right side of a line of some kind, or a whole statement after `!`; None where no value fits."""


class Unsound(Exception):
    """What was drawn is of no use."""


def is_small(value: Tensor) -> bool:
    value = value.detach()
    if not value.is_floating_point() or value.numel() == 0:
        return True
    return bool(value.isfinite().all()) and float(value.abs().max()) <= LARGEST


def is_exact(value: Tensor) -> bool:
    if not value.is_floating_point():
        return True
    scaled = value.detach() / STEP
    return bool((scaled == scaled.round()).all())


_ROUNDING = ("mean", "sin(", "sigmoid", "exp(", "softmax", "tanh", "sqrt", "avg_pool", " / ", "var(")


def ints(t: Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool


def floats(t: Tensor) -> bool:
    return t.is_floating_point()
