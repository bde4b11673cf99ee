"""decode and assemble give back what CPython compiled, over the standard library and torch."""

import argparse
import ast
import contextlib
import dataclasses
import decimal
import difflib
import functools
import json
import opcode
import statistics
import textwrap
import types
from collections.abc import Iterator

import pytest
import torch
import torch.distributions.normal
import torch.nn.functional
from torch.nn.modules import rnn, transformer

from capture.bytecode import assemble, decode, liveness, stack_depths
from capture.bytecode.dialect import current

MODULES = [
    ast, argparse, contextlib, dataclasses, decimal, difflib, functools, json, statistics, textwrap,
    torch.nn.functional, torch.distributions.normal, rnn, transformer, torch.nn.modules.module, torch._tensor,
]  # fmt: skip


def codes(value: object) -> Iterator[types.CodeType]:
    """Every code object of a module's functions and classes, and those nested in them."""
    if isinstance(value, types.CodeType):
        yield value
        for const in value.co_consts:
            yield from codes(const)
    elif isinstance(value, types.FunctionType):
        yield from codes(value.__code__)
    elif isinstance(value, type):
        for each in vars(value).values():
            yield from codes(each.__func__ if isinstance(each, (classmethod, staticmethod)) else each)


def module_codes(module: types.ModuleType) -> Iterator[types.CodeType]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) == module.__name__:
            yield from codes(value)


def not_borrowing(code: types.CodeType) -> bytes:
    """The bytes of the code, with each load that borrows from a local, as 3.14 has them, made one that does not: so `decode` reads it."""
    plain = {opcode.opmap[name]: opcode.opmap[other] for name, other in current().read_as.items()}
    raw = bytearray(code.co_code)
    for at in range(0, len(raw), 2):  # what lies in caches is 0
        raw[at] = plain.get(raw[at], raw[at])
    return bytes(raw)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_same_code(module):
    count = 0
    for code in module_codes(module):
        made = assemble(decode(code), like=code)
        count += 1
        assert made.co_stacksize == max(code.co_stacksize, 1)
        shared = set(code.co_varnames[code.co_argcount :]) & set(code.co_cellvars)
        if shared:  # the compiler's slot for these cannot be asked for, so operands differ
            again, instructions = decode(made), decode(code)
            assert [(i.opname, i.positions) for i in again] == [(i.opname, i.positions) for i in instructions]
            continue
        assert list(made.co_positions()) == list(code.co_positions())
        assert made.co_code == not_borrowing(code)
        assert made.co_exceptiontable == code.co_exceptiontable
        assert made.co_consts == code.co_consts
        assert (made.co_names, made.co_varnames) == (code.co_names, code.co_varnames)
    assert count > 0


@pytest.mark.parametrize("module", [statistics, contextlib, torch.nn.functional], ids=lambda m: m.__name__)
def test_depths_and_liveness_cover_every_instruction(module):
    for code in module_codes(module):
        instructions = decode(code)
        assert len(liveness(instructions)) == len(stack_depths(instructions)) == len(instructions)
        assert liveness(instructions)[0] <= set(code.co_varnames) | set(code.co_cellvars) | set(code.co_freevars)


def run_both(function, *args, **kwargs):
    """What the function and its reassembled twin do."""
    code = function.__code__
    twin = types.FunctionType(
        assemble(decode(code), like=code),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    outcomes = []
    for each in (function, twin):
        try:
            result = each(*args, **kwargs)
            outcomes.append(list(result) if isinstance(result, types.GeneratorType) else result)
        except Exception as error:
            outcomes.append((type(error), str(error), error.__traceback__.tb_next.tb_lineno))
    return outcomes


def control(values, stop=None):
    total, log = 0, []
    for value in values:
        try:
            if value is None:
                continue
            with contextlib.suppress(KeyError):
                if value == "key":
                    raise KeyError(value)
                total += 10 // value
        except ZeroDivisionError as error:
            log.append(str(error))
        except TypeError:
            raise ValueError("not a number") from None
        finally:
            log.append(value)
        if value == stop:
            break
    else:
        log.append("all")
    while total > 3 and total != 7:
        total -= 1
    return total, log


def comprehensions(rows):
    x = 5
    pairs = {k: [v * x for v in row if v] for k, row in enumerate(rows)}
    functions = [lambda y=y: y + x for y in range(3)]
    captured = [lambda: x + y for y in range(3)]
    return pairs, [f() for f in functions], [f() for f in captured], x


def closures(a, *rest, b=2, **more):
    def inner(c):
        nonlocal a
        a += c
        return a + b + len(rest) + len(more)

    return [inner(i) for i in range(3)], a


def generator(n):
    received = []
    for i in range(n):
        try:
            received.append((yield i))
        finally:
            received.append("f")
    yield from received
    return n


def matching(value):
    match value:
        case {"a": x, **rest}:
            return x, rest
        case [first, *_, last] if first != last:
            return first, last
        case str() as text:
            return f"{text!r:>8}"
        case _:
            return None


class Base:
    def value(self):
        return 1


class Derived(Base):
    def value(self):
        return super().value() + __class__.number

    number = 4


@pytest.mark.parametrize(
    "function, args",
    [
        (control, ([1, 2, None, 5, 0, "key"],)),
        (control, ([1, 2, 3], 2)),
        (control, ([1, []],)),
        (comprehensions, ([[1, 0, 2], [3]],)),
        (closures, (1, 2, 3)),
        (generator, (4,)),
        (matching, ({"a": 1, "b": 2},)),
        (matching, ([1, 2, 3],)),
        (matching, ("text",)),
        (matching, (7,)),
        (Derived.value, (Derived(),)),
    ],
)
def test_behaves_the_same(function, args):
    first, second = run_both(function, *args)
    assert first == second


def test_long_jumps_and_many_constants():
    body = "\n".join(f"        t += {i * 1000}; n{i} = t" for i in range(600))
    source = f"def long(flag):\n    t = 0\n    for _ in range(2):\n        if flag: continue\n{body}\n    return t\n"
    space = {}
    exec(source, space)
    code = space["long"].__code__
    assert assemble(decode(code), like=code).co_code == not_borrowing(code)
    first, second = run_both(space["long"], False)
    assert first == second != 0
