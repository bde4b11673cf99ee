"""Runs programs eagerly and compiled, many in one function, and says where they differ.

In: programs, and how to compile a function. Out: those that differ, each made smaller.
"""

from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .program import Input, Program, names, smaller

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
_COUNT = itertools.count()


class Unsound(Exception):
    """Eager refuses it."""


def failure(programs: Sequence[Program], compiled: Compile, device: str = "cpu") -> str | None:
    """What the first difference is, or what the compiler raised; None where all is well.

    Compared is with eager on the processor, which takes the first of several equal numbers.

    Raises:
        Unsound: eager refuses one of them.
    """
    functions = [_function(program, device) for program in programs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [_expected(program) for program in programs]
        try:
            found = _outcomes(programs, compiled(_all(functions)), device)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    for program, ours, eager in zip(programs, found, expected, strict=True):
        said = _difference(program, ours, eager)
        if said is not None:
            return said
    return None


def _function(program: Program, device: str) -> Callable[..., Any]:
    name, text = f"<random indices {next(_COUNT)}>", program.text()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = names(device)
    exec(compile(text, name, "exec"), space)
    function: Callable[..., Any] = space["program"]
    return function


def _all(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def together(given: Sequence[Sequence[Any]]) -> list[Any]:
        return [function(*args) for function, args in zip(functions, given, strict=True)]

    return together


def _expected(program: Program, device: str = "cpu") -> list[Any]:
    try:
        return _outcomes([program], _all([_function(program, device)]), device)[0]
    except Exception as error:
        raise Unsound from error


def _is_sound(program: Program, device: str) -> bool:
    try:
        _expected(program, device)
    except Unsound:
        return False
    return True


def _outcomes(programs: Sequence[Program], together: Callable[..., Any], device: str) -> list[list[Any]]:
    """Of each what it gives, what its inputs are afterwards, and their gradients: of its inputs, and of its other ones."""
    first = _outcomes_of(programs, [(program.inputs, program.numbers[0]) for program in programs], together, device)
    if not any(program.others for program in programs):
        return first
    others = [(program.others or program.inputs, program.numbers[bool(program.others)]) for program in programs]
    second = _outcomes_of(programs, others, together, device)
    return [
        [*one, *(another if program.others else ())]
        for program, one, another in zip(programs, first, second, strict=True)
    ]


def _outcomes_of(
    programs: Sequence[Program],
    inputs: Sequence[tuple[Sequence[Input], int]],
    together: Callable[..., Any],
    device: str,
) -> list[list[Any]]:
    given = [[one.make(device) for one in several] for several, _ in inputs]
    for program, args in zip(programs, given, strict=True):
        for arg in args:
            if program.backward and arg.is_floating_point():
                arg.requires_grad_()
    results = together([[*args, k] for args, (_, k) in zip(given, inputs, strict=True)])
    # Computed before the backwards, which may be of one graph.
    before = [[t.detach().clone().cpu() for t in (*made, *args)] for made, args in zip(results, given, strict=True)]
    slopes = [_weighed(t) for made in results for t in made if t.requires_grad]
    if slopes:
        torch.stack(slopes).sum().backward()
    slopes_of = [[None if arg.grad is None else arg.grad.cpu() for arg in args] for args in given]
    return [[*values, *grads] for values, grads in zip(before, slopes_of, strict=True)]


def _weighed(result: torch.Tensor) -> torch.Tensor:
    weights = torch.arange(result.numel(), device=result.device).reshape(result.shape) % 5 - 2
    return (result * weights).sum().to(torch.float64)


def _difference(program: Program, ours: Sequence[Any], eager: Sequence[Any]) -> str | None:
    said = [*program.returns, *(f"x{at} afterwards" for at in range(len(program.inputs)))]
    said += [f"gradient of x{at}" for at in range(len(program.inputs))]
    said += [f"{each}, of other sizes" for each in said] if program.others else []
    for name, mine, theirs in zip(said, ours, eager, strict=True):
        if mine is None or theirs is None:
            if mine is not theirs:
                return f"{name}: {mine} in place of {theirs}"
            continue
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return f"{name}: {mine.dtype} {tuple(mine.shape)} in place of {theirs.dtype} {tuple(theirs.shape)}"
        close = {"atol": 1e-4, "rtol": 1e-4} if theirs.is_floating_point() else {"atol": 0, "rtol": 0}
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True, **close)
        except AssertionError as error:
            return f"{name}: {error}"
    return None


def failures(programs: Sequence[Program], compiled: Compile, device: str = "cpu") -> list[tuple[Program | None, str]]:
    """The programs that differ, made smaller, or None for what only differs in one function with others; and how."""
    if device != "cpu":
        programs = [program for program in programs if _is_sound(program, device)]
    together = failure(programs, compiled, device)
    if together is None:
        return []
    found: list[tuple[Program | None, str]] = []
    for program in programs:
        if failure([program], compiled, device) is not None:
            small = shrunk(program, compiled, device)
            found.append((small, failure([small], compiled, device) or "not again"))
    return found or [(None, together)]


def shrunk(program: Program, compiled: Compile, device: str) -> Program:
    """The program without what it fails without too."""
    found: Program | None = program
    while found is not None:
        program = found
        found = next((one for one in smaller(program) if _fails(one, compiled, device)), None)
    return program


def _fails(program: Program, compiled: Compile, device: str) -> bool:
    try:
        return failure([program], compiled, device) is not None
    except Unsound:
        return False
