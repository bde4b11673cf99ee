"""What Python does with sizes and with numbers computed from them: eager's values and types, from one capture where sense allows."""

# ruff: noqa: C416, C417, E711, E712, PIE804, RUF005, UP031, UP032 (programs are written in all ways)

from __future__ import annotations

import cmath
import functools
import math
import operator
import struct
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

SIZES = (3, 4, 5, 8, 12, 17)
Number = Callable[[Any], Any]

ONE_CAPTURE: dict[str, Number] = {
    **{f"math.{f.__name__}": lambda n, f=f: f(n / 20) for f in (math.asin, math.acos, math.atanh)},
    **{
        f"math.{f.__name__}": lambda n, f=f: f(n)
        for f in (
            math.sqrt, math.cbrt, math.log, math.log2, math.log10, math.log1p, math.exp, math.exp2, math.expm1, math.sin, math.cos, math.tan,
            math.sinh, math.tanh, math.atan, math.asinh, math.acosh, math.degrees, math.erf, math.gamma, math.lgamma, math.fabs, math.isqrt,
            math.ceil, math.floor, math.trunc,
        )
    },
    "logarithms to a base": lambda n: (math.log(n, 2), math.log(100, n)),
    "functions of several": lambda n: (math.gcd(n, 12), math.lcm(n, 6), math.atan2(n, 3), math.hypot(n, 3), math.comb(n, 2)),
    "powers": lambda n: (pow(n, 2), n**3, n**0.5, n**-0.5, n**-1, 2**n, 0.9**n, math.pow(n, -0.5), pow(n, 2, 7), (0.5 - n) ** 2),
    "whole parts": lambda n: (math.ceil(n / 3), math.floor(n / 3), math.trunc(-n / 3), int(n / 2), int(-n / 2), round(n / 2)),
    "digits": lambda n: (round(n / 3, 2), round(n, -1), round(n), round(n, 2), round(n / 7, ndigits=1)),
    "conversions": lambda n: (float(n), int(n), abs(3 - n), abs(3.5 - n), +n, -n, ~n, bool(n)),
    "divisions": lambda n: (n / 7, 7 / n, -n // 3, -n % 3, n // -3, n % -3, -7 // n, -7 % n, divmod(n, 3), divmod(100, n)),
    "divisions of floats": lambda n: (n * 0.7 // 0.3, n * 0.7 % 0.3, divmod(n * 0.7, 0.3), -n * 0.7 % 0.3, math.fmod(n * 1.5, 2)),
    "extremes": lambda n: (min(n, 100), max(n, 2, n + 1), max([n, 6, 2 * n]), max([n], default=4), max(n * 0.5, 2.3)),
    "sums": lambda n: (sum([n, n, 2]), sum([n, n], n), sum((n * 0.1, n * 0.2, 0.3)), sum([0.1] * 10) + n, math.fsum([n, 0.1, n])),
    "products": lambda n: (math.prod([n, n + 1, 2]), math.prod((n, 0.5), start=3), functools.reduce(operator.mul, [n, 2, n], 1)),
    "kinds": lambda n: (isinstance(n, int), isinstance(n / 2, float), type(n) is int, type(n / 2) is float, isinstance(n, bool)),
    "kinds of conditions": lambda n: (isinstance(n > 2, bool), isinstance(n > 2, int), type(n)(3) * n),
    "bits": lambda n: (n & 3, n | 3, n ^ 3, n & -n, n & ~7, n << 2, n >> 1, 1 << n, n.bit_length(), n.bit_count()),
    "a power of two above": lambda n: 1 << (n - 1).bit_length(),
    "methods of int": lambda n: (int.__add__(n, 2), n.__add__(2), n.__rsub__(2), n.__floordiv__(2), n.__pow__(3), n.__neg__(), n.__index__()),
    "methods of float": lambda n: (float.__mul__(n / 2, 2.0), (n / 3).__ceil__(), (n / 3).__round__(), n.__float__(), (n / 2).real),
    "parts": lambda n: (n.real, n.imag, n.numerator, n.denominator, n.conjugate(), (n / 2).imag),
    "absent attributes": lambda n: (hasattr(n, "shape"), getattr(n, "shape", 7), hasattr(n, "real"), n.__class__ is int),
    "the module operator": lambda n: (operator.add(n, 1), operator.neg(n), operator.index(n), operator.abs(2 - n), operator.iadd(n, 3)),
    "comparisons": lambda n: (n == "a", n != (1,), n == None, n is None, n is not None, n < 4.5 * n, 2 < n <= 100),
    "lists of sizes": lambda n: ([n, n + 1].index(n + 1), [n, n + 1, n].count(n), n in (n, 4), [n, [n + 1]][1][0]),
    "arguments": lambda n: (lambda a, *b, k: a + sum(b) * k)(*[n, n, 3], **{"k": n}),
    "attributes": lambda n: types.SimpleNamespace(a=n).a,
    "conditions": lambda n: (not n > 100, 2 if n * 0.7 else 3, n > 2 and n < 100, any([n > 100, n > 200]), n > 100 or 3),
    "special floats": lambda n: (n * -0.0, n * math.inf, n + math.nan, n < math.inf, math.copysign(n, -1), (n - n) * -1.0, -(n * 0.0)),
    "float questions": lambda n: (math.isnan(n / 2), math.isfinite(n / 2), math.isinf(n * math.inf), (n * 2.0).is_integer()),
    "big ints": lambda n: (n * 2**62 % 1000003, n * 2**62 > 2**70, float(n * 2**62), n + 2**70),
    "torch's functions": lambda n: (torch.sym_max(n, 600), torch.sym_min(n, 2.5), torch.sym_int(n / 2), torch.sym_float(n), torch.sym_sqrt(n)),
    "torch's conditions": lambda n: (torch.sym_not(n > 100), torch.sym_sum([n, n, 2]), torch.sym_ite(n > 1, n, 2)),
    "a schedule": lambda n: 0.5 * (1 + math.cos(math.pi * n / 20)),
    "rounded up": lambda n: (2 ** math.ceil(math.log2(n)), (8 - n % 8) % 8, (n + 7) // 8 * 8),
}  # fmt: skip

# For each value, or each branch, a capture of its own.
GUARDED: dict[str, Number] = {
    "text": lambda n: (f"{n}", str(n), repr(n), "%d" % n, f"{n:04d}", "{}".format(n), str(n / 2), ",".join([str(n), str(n + 1)])),
    "hashes": lambda n: (hash(n), hash(n / 2), hash((n, 1)), {3: 10, 4: 20}.get(n, 30), {n: 10, n + 1: 20}[n + 1], len({n, 3, 4})),
    "membership": lambda n: (n in [3, 4], n in {3, 4}, n in range(3, 6), n in {3: 1}),
    "ranges": lambda n: (sum(range(n)), len(range(n)), [i for i in range(n)][-1], list(range(n, 20, 5))),
    "lengths": lambda n: (len([1] * n), [1, 2, 3, 4, 5][:n], ([1, 2, 3, 4, 5] * 5)[n], "ab" * n, len(b"x" * n)),
    "characters": lambda n: (chr(n), bin(n), hex(n), n.to_bytes(2, "big")),
    "branches": lambda n: (n if n > 6 else n * 2, n == 4, n == 4.0, max(n, 6.5), max(2, n * 0.5), min(math.inf, n), n * 0.7 < 5),
    "sorting": lambda n: (sorted([n, 6, 2 * n]), sorted([n, 6], reverse=True), min(n, 6, key=lambda v: -v)),
    "truths as numbers": lambda n: ((n > 3) + 1, (n > 3) * n, sum([n > 3, n > 4]), float(n > 3), ~(n > 3), -(n > 3), (n > 3) & 3),
    "truths": lambda n: ((n > 3) & (n < 10), (n > 3) | (n < 10), (n > 3) ^ (n < 10), (n > 3) == (n < 10), (n > 3) is True, n == True),
    "rare functions": lambda n: (math.factorial(n), math.modf(n / 3), math.frexp(n / 3), complex(n, 1), cmath.sqrt(n), n * 1j, math.isclose(n, 4)),
    "rare methods": lambda n: ((n / 2).as_integer_ratio(), n.__divmod__(3), n.__eq__(2.0), n.__add__(2.0), (n / 2).hex()),
    "truths that are known": lambda n: (True ^ (n > 3), n // True, n + False, n**True, (n > 3) ^ (n > 4), round(n > 3), math.floor(n > 3)),
    "constants after all": lambda n: (n == 4 and n * 0.5, n == 4 and n / 2.5, n == 4 and math.exp(n) == math.exp(4), n != 4 or n**0.5),
    "identity": lambda n: (n is n, n is True, operator.is_(n, "a"), operator.is_(n, 4), operator.is_not(n, 2), n == 1j, n == n + 0j),
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Of one type, and equal; floats bit for bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)
    return bool(a == b)


def captures(number: Number, sizes: tuple[int, ...] = SIZES) -> int:
    """Call on tensors of all sizes, each against Python; how many graphs it took."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, number(x.shape[0])

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for size in sizes:
        x = torch.ones(size)
        (_, expected), (_, got) = fn(x), compiled(x)
        assert same(expected, got), f"{size}: {expected} and not {got}"
    return len(compiled.session.report.graphs)


@pytest.mark.parametrize("name", ONE_CAPTURE)
def test_one_capture_for_all_sizes(name: str) -> None:
    assert captures(ONE_CAPTURE[name]) == 1


@pytest.mark.parametrize("name", GUARDED)
def test_what_depends_on_the_value_is_guarded(name: str) -> None:
    assert 1 < captures(GUARDED[name], (3, 4, 5, 8, 3, 4)) <= 4


@pytest.mark.parametrize("name", [*ONE_CAPTURE, *GUARDED])
def test_sizes_zero_and_one(name: str) -> None:
    def outcome(call: Callable[..., Any], x: torch.Tensor) -> Any:
        try:
            return call(x)[1]
        except (ArithmeticError, ValueError, LookupError) as error:
            return type(error), str(error)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, (ONE_CAPTURE | GUARDED)[name](x.shape[0])

    compiled = capture.compile(fn, dynamic=True)
    for size in (6, 1, 0, 2):
        assert same(outcome(fn, torch.ones(size)), outcome(compiled, torch.ones(size)))


def test_a_size_without_a_value_is_python_again() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        try:
            return x * (1 / (n - 5)) * math.log(n - 6 + 3) * (n - 7.0) ** 0.5
        except (ZeroDivisionError, ValueError) as error:
            return x + len(str(error))
        except TypeError:
            return x

    compiled = capture.compile(fn, dynamic=True)
    for size in (9, 5, 8, 3, 2, 10, 7):
        x = torch.ones(size)
        assert torch.equal(fn(x) + 0, compiled(x) + 0)


SHAPES = (((3, 4), (3, 4)), ((5, 6), (7, 6)), ((8, 3), (9, 3)), ((7, 2), (7, 2)), ((4, 4), (4, 4)), ((6, 9), (6, 9)))
Program = Callable[[torch.Tensor, torch.Tensor], Any]

OF_SHAPES: dict[str, tuple[Program, int]] = {
    "equal": (lambda x, y: x.shape == y.shape, 3),
    "unequal": (lambda x, y: x.shape != y.shape, 3),
    "in order": (lambda x, y: x.shape < y.shape, 4),
    "equal to a tuple": (lambda x, y: x.shape == (3, 4), 4),
    "equal to a list": (lambda x, y: x.shape == [3, 4], 1),
    "equal parts": (lambda x, y: x.shape[1:] == y.shape[1:], 3),
    "equal lists": (lambda x, y: list(x.shape) == list(y.shape), 3),
    "in a list of shapes": (lambda x, y: tuple(x.shape) in [tuple(y.shape)], 3),
    "a size in a shape": (lambda x, y: 3 in x.shape, 4),
    "sums and products": (lambda x, y: (sum(x.shape), math.prod(x.shape), x.shape.numel(), x.numel(), x.stride(0)), 2),
    "extremes": (lambda x, y: (max(x.shape), min(x.shape), max(x.size(0), y.size(1))), 2),
    "sorted": (lambda x, y: sorted(x.shape), 3),
    "walks": (lambda x, y: (sum(map(lambda a: a * 2, x.shape)), sum(a * b for a, b in zip(x.shape, y.shape)), [*x.shape, *y.shape]), 2),
    "joined and turned": (lambda x, y: (x.shape + (1,), x.shape[::-1], tuple(reversed(x.shape)), len(x.shape), len(x)), 2),
    "looked for": (lambda x, y: (x.shape.index(x.shape[0]), x.shape.count(x.shape[0])), 3),
    "the longest dimension": (lambda x, y: max(range(2), key=lambda d: x.shape[d]), 3),
    "ratios": (lambda x, y: (x.shape[0] / x.shape[1], int(math.sqrt(x.shape[0] * x.shape[1]))), 2),
    "returned": (lambda x, y: (x.shape, torch.Size([x.shape[0], 2]), {"a": x.shape[0]}["a"], x.size()), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_SHAPES)
def test_shapes(name: str) -> None:
    program, most = OF_SHAPES[name]

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + 1, program(x, y)

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for first, second in SHAPES:
        x, y = torch.ones(first), torch.ones(second)
        expected, got = fn(x, y)[1], compiled(x, y)[1]
        assert same(expected, got), f"{first}, {second}: {expected} and not {got}"
    assert len(compiled.session.report.graphs) <= most


def test_assertions_about_sizes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (height, width), (rows, _) = x.shape, y.shape
        assert height == rows, f"{height} and {rows}"
        assert width > 1
        return x + height

    compiled = capture.compile(fn, dynamic=True)
    for rows in (3, 5, 8):
        assert torch.equal(
            fn(torch.ones(rows, 2), torch.ones(rows, 4)), compiled(torch.ones(rows, 2), torch.ones(rows, 4))
        )
    assert len(compiled.session.report.graphs) == 1
    with pytest.raises(AssertionError, match="3 and 5"):
        compiled(torch.ones(3, 2), torch.ones(5, 4))


WITH_TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "positions": lambda x: (x[x.shape[0] // 2], x[x.shape[0] - 1], x[-(x.shape[0] // 2)], x[x.shape[0] // 2, 1], x[1, x.shape[1] - 1]),
    "positions among others": lambda x: (x[..., x.shape[1] - 1], x[:, x.shape[1] // 2], x[None, x.shape[0] - 1, ..., None], x[x.shape[0] - 1, :]),
    "positions beside slices": lambda x: (x[1:, x.shape[1] - 1], x[x.shape[0] - 2, ::2], x[None, :, None, x.shape[1] - 1]),
    "positions beside tensors": lambda x: (
        x[x.shape[0] - 1, torch.tensor([0, 2, 1])], x[torch.tensor([0, 1]), x.shape[1] - 1], x[:, None][torch.tensor([0, 1]), :, x.shape[1] - 1],
    ),
    "positions that are written": lambda x: _written(x.clone()),
    "tensors of numbers": lambda x: (
        torch.tensor(x.shape[0]), torch.tensor(x.shape[0] / 2), torch.tensor([x.shape[0], 2]), torch.tensor(x.shape), torch.as_tensor(x.shape[0]),
        torch.tensor([[x.shape[0], 0.5], [1, 2]]), torch.tensor(x.shape[0] * 1e60), torch.tensor(x.shape[0], dtype=torch.float32), torch.tensor(x.shape[0], device="cpu"),
    ),
    "tensors like another": lambda x: (x.new_tensor(x.shape[0]), x.new_tensor([x.shape[0], 1.5]), x.new_full((2,), x.shape[0] / 2), x.nbytes),
    "full of a number": lambda x: (torch.full((), x.shape[0]), torch.full((2,), x.shape[0] / 2), torch.full((x.shape[0],), x.shape[0])),
    "ranges": lambda x: (torch.arange(x.shape[0]), torch.arange(0, x.shape[0] * 2, 2), torch.arange(x.shape[0], 0, -1)),
    "counts": lambda x: (torch.linspace(0, 1, x.shape[0]), torch.logspace(0, 1, steps=x.shape[0], base=2.0), torch.linspace(0.5, x.shape[1], 5)),
    "ranges of floats": lambda x: (torch.arange(0, 1, 1 / x.shape[0]), torch.arange(x.shape[0] * 1.0, 0, -0.7), torch.arange(0, x.shape[0] / 2)),
    "conditions as operands": lambda x: (x * (x.shape[0] > 2), x + (x.shape[0] == x.shape[1] + 100), x.shape[0] in range(2, 100)),
    "operands": lambda x: (x * x.shape[0] * 0.5, x / x.shape[0], x * x.shape[0] ** -0.5, x.long() + x.shape[0] / 2, x.shape[0] - x, x > x.shape[0] / 2),
}  # fmt: skip


def _written(x: torch.Tensor) -> torch.Tensor:
    x[x.shape[0] - 1] = 7
    x[..., x.shape[1] // 2] += x.shape[0]
    x[torch.tensor([0, 1]), x.shape[1] - 1] = torch.tensor([3.0, 4.0])
    return x


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_numbers_with_tensors(name: str) -> None:
    program = WITH_TENSORS[name]
    compiled = capture.compile(program, dynamic=True, fullgraph=True)
    for rows, columns in ((5, 4), (6, 3), (9, 7), (4, 8)):
        x = torch.arange(1.0, rows * columns + 1).view(rows, columns)
        expected, got = program(x), compiled(x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert same([type(part) for part in expected], [type(part) for part in got])
    assert len(compiled.session.report.graphs) == 1


def test_a_position_beyond_the_end_is_an_error() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[y.shape[0] + 1] * 2

    compiled = capture.compile(fn, dynamic=True)
    assert torch.equal(compiled(torch.arange(8.0), torch.ones(3)), torch.tensor(8.0))
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 6"):
        compiled(torch.arange(6.0), torch.ones(6))


def test_so_many_elements_on_the_default_device() -> None:
    """Operators with a symbolic count are none of those that torch gives the default device to."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            torch.linspace(0, 1, n), torch.logspace(0, 1, n, device=None), torch.linspace(0, 1, n, device="cpu"),
            torch.arange(n), torch.full((n,), 0.5), torch.tensor([n, 2]), torch.eye(n), torch.zeros(n),
        )  # fmt: skip

    compiled = capture.compile(fn, dynamic=True, fullgraph=True)
    for rows in (3, 5, 8):
        x = torch.ones(rows)
        for device in ("meta", "cpu"):
            with torch.device(device):
                expected, got = fn(x), compiled(x)
            assert [part.device for part in got] == [part.device for part in expected]
            assert [part.shape for part in got] == [part.shape for part in expected]


@pytest.mark.parametrize(
    "number", [complex(-0.0, 0.0), complex(1.0, -0.0), complex(0, math.inf), complex(-math.inf, math.nan), 1 + 2j]
)
def test_complex_numbers_are_written_as_they_are(number: complex) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.full((1,), number), x + number, torch.stack([x, x * number])

    x = torch.zeros(2, dtype=torch.complex128)
    for expected, got in zip(fn(x), capture.compile(fn, fullgraph=True)(x), strict=True):
        assert repr(torch.view_as_real(got).tolist()) == repr(torch.view_as_real(expected).tolist())
