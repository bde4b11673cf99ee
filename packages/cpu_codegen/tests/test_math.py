"""Accuracy of the vector functions against float64 over wide ranges, and their special values against torch."""

from __future__ import annotations

import pytest
import sympy
import torch

from cpu_codegen.text import words
from inductor import ops
from inductor.philox import random_bits

INF, NAN = float("inf"), float("nan")
SPECIAL = [
    0.0,
    -0.0,
    INF,
    -INF,
    NAN,
    1e-45,
    -1e-45,
    1e-38,
    -1e-38,
    1.0,
    -1.0,
    3e38,
    -3e38,
    88.7,
    89.5,
    -87.5,
    -103.9,
    -110.0,
]
MAX_ULP = 2.0
LOOSER = {"sigmoid": 2.1, "tanh": 2.1, "lgamma": 8.0}  # lgamma: libm's, which loses digits near its zeros

UNARY = words(
    "abs neg exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh"
    " atanh erf erfc lgamma sigmoid floor ceil trunc round sign"
)
BINARY = words("pow atan2 copysign fmod remainder maximum minimum floordiv")

REFERENCE = {"floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor")}


def ulps(actual: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Distance in units of float32's last place at the exact (float64) result; 0 where both are the same special value."""
    rounded = exact.to(torch.float32)
    size = rounded.abs().clamp(min=2.0**-126)
    unit = torch.exp2(torch.floor(torch.log2(size.double())) - 23)
    distance = (actual.double() - exact).abs() / unit
    same = (actual == rounded) | (actual.isnan() & exact.isnan())
    # Past the largest number, the last place is that of the largest number.
    return torch.where(same, 0.0, distance.nan_to_num(nan=INF))


def grid(count: int = 20000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    exponents = torch.empty(count).uniform_(-126, 127, generator=generator)
    wide = torch.exp2(exponents) * torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    near = torch.randn(count, generator=generator) * 3
    around_one = 1 + torch.randn(count, generator=generator) * 1e-3
    medium = torch.empty(count).uniform_(-120, 120, generator=generator)
    return torch.cat([wide, near, around_one, medium, torch.tensor(SPECIAL), torch.linspace(-3, 3, 1007)])


def call(name, arity, dtype):
    def body(outer, inner):
        ops.store("out", outer[0], getattr(ops, name)(*(ops.load(f"in{k}", outer[0]) for k in range(arity))))

    return body


@pytest.fixture
def functions(isa, case, compiled):
    """Every function over n elements, compiled in one file."""
    cases = {}
    for names, arity in ((UNARY, 1), (BINARY, 2)):
        for name in names:
            for dtype in (torch.float32, torch.float64):
                buffers = {f"in{k}": ("in", dtype) for k in range(arity)} | {"out": ("out", dtype)}
                key = f"{name}_{dtype.itemsize * 8}"
                n = sympy.Symbol("n", integer=True, nonnegative=True)
                cases[key] = case(key, call(name, arity, dtype), [n], [], buffers, [n])
    return compiled(list(cases.values()))


def reference(name, *args):
    return (REFERENCE.get(name) or getattr(torch, name))(*args)


def test_accuracy_and_special_values(functions):
    x = grid()
    worst = {}
    for name in UNARY:
        out = torch.empty_like(x)
        functions[f"{name}_32"](x, out, x.numel())
        distance = ulps(out, reference(name, x.double()))
        if name == "reciprocal":  # of subnormals: the exact result is not a float32
            distance = distance[x.abs() > 1e-38]
        at = int(distance.argmax())
        worst[name] = (round(float(distance[at]), 2), float(x[at]), float(out[at]))
    too_far = {name: found for name, found in worst.items() if found[0] > LOOSER.get(name, MAX_ULP)}
    assert not too_far, f"{too_far}"


def test_binary_accuracy(functions):
    generator = torch.Generator().manual_seed(1)
    x = grid(5000)
    y = x[torch.randperm(x.numel(), generator=generator)]
    pairs = torch.cartesian_prod(
        torch.tensor([*SPECIAL, 2.0, 3.0, -2.0, -3.0, 0.5, 2.5]), torch.tensor([*SPECIAL, 2.0, 3.0, -2.0, 0.5])
    )
    x, y = torch.cat([x, pairs[:, 0], x.abs()]), torch.cat([y, pairs[:, 1], y])
    worst = {}
    for name in BINARY:
        out = torch.empty_like(x)
        functions[f"{name}_32"](x, y, out, x.numel())
        if name in ("fmod", "remainder", "floordiv", "maximum", "minimum"):
            exact = reference(name, x, y)
            same = (out == exact) | (out.isnan() & exact.isnan())
            # Torch's own vectorised remainders give up on quotients that do not fit.
            same |= ~((x / y).abs() < 2**20) & x.isfinite() & (y != 0)
            at = int((~same).int().argmax())
            worst[name] = (0 if bool(same.all()) else 99, float(x[at]), float(y[at]), float(out[at]), float(exact[at]))
            continue
        distance = ulps(out, reference(name, x.double(), y.double()))
        at = int(distance.argmax())
        worst[name] = (round(float(distance[at]), 2), float(x[at]), float(y[at]), float(out[at]))
    too_far = {name: found for name, found in worst.items() if found[0] > MAX_ULP}
    assert not too_far, f"{too_far}"


def test_float64_is_libm_grade(functions):
    x = grid(2000).double()
    for name in UNARY:
        out = torch.empty_like(x)
        functions[f"{name}_64"](x, out, x.numel())
        exact = reference(name, x)
        torch.testing.assert_close(
            out,
            exact,
            rtol=2e-15 if name != "lgamma" else 1e-14,
            atol=0,
            equal_nan=True,
            msg=lambda m, name=name: f"{name}: {m}",
        )


def test_signs_of_zero(functions):
    zeros = torch.tensor([0.0, -0.0] * 8)
    for name in words("neg sqrt sin tan asin atan sinh tanh asinh atanh erf floor ceil trunc round expm1 log1p"):
        out = torch.empty_like(zeros)
        functions[f"{name}_32"](zeros, out, zeros.numel())
        expected = reference(name, zeros)
        assert torch.equal(out.signbit(), expected.signbit()), name


def test_float64_at_its_limits(functions):
    """Large arguments, results beyond and below the normal numbers, zeros, and what is next to them."""
    generator = torch.Generator().manual_seed(2)
    wide = torch.empty(4000, dtype=torch.float64).uniform_(-760, 760, generator=generator)
    angles = torch.empty(4000, dtype=torch.float64).uniform_(-2e6, 2e6, generator=generator)
    turns = torch.arange(-2000, 2000, dtype=torch.float64) * (torch.pi / 2)
    small = torch.exp2(torch.empty(4000, dtype=torch.float64).uniform_(-1074, 2, generator=generator))
    around_one = 1 + torch.randn(4000, dtype=torch.float64, generator=generator) * 1e-9
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 5e-324, 1.7e308, 709.7, 709.8, -745.1, -745.2, 1024.0, -1074.0])
    x = torch.cat([wide, angles, turns, small, -small, around_one, special.double()])
    for name in words("exp exp2 expm1 log log2 log1p sin cos tanh erf sigmoid"):
        out = torch.empty_like(x)
        functions[f"{name}_64"](x, out, x.numel())
        # Results that are subnormal have fewer digits.
        torch.testing.assert_close(
            out, reference(name, x), rtol=1e-15, atol=1e-323, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
        )
        zeros = out[x == 0]
        assert torch.equal(zeros.signbit(), reference(name, x[x == 0]).signbit()), name


def test_float64_powers(functions):
    generator = torch.Generator().manual_seed(3)
    x = torch.exp(torch.randn(4000, dtype=torch.float64, generator=generator) * 20)
    y = torch.randn(4000, dtype=torch.float64, generator=generator) * 30
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 1e300, 5e-324, 1023.5])
    pairs = torch.cartesian_prod(special.double(), special.double())
    x, y = torch.cat([x, x, pairs[:, 0]]), torch.cat([y, y / 1000, pairs[:, 1]])
    out = torch.empty_like(x)
    functions["pow_64"](x, y, out, x.numel())
    torch.testing.assert_close(out, x**y, rtol=1e-15, atol=1e-323, equal_nan=True)


def test_random_bits_are_those_of_the_reference(isa, case, compiled):
    """In vectors, their tails and scalars: under one seed and under many, also beyond 32 bits of either."""
    long = torch.int64
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    many = {"in0": ("in", long), "in1": ("in", long), "out": ("out", long)}

    def under_one(outer, inner):
        ops.store("out", outer[0], ops.random_bits(ops.load("in0", 0), ops.index_expr(outer[0] * 2**33 + 5, long)))

    cases = [
        case("under_many", call("random_bits", 2, long), [n], [], many, [n]),
        case("under_one", under_one, [n], [], {"in0": ("in", long), "out": ("out", long)}, [n]),
    ]
    functions = compiled(cases)
    seeds, positions = (torch.randint(-(2**63), 2**63 - 1, (1003,)) for _ in range(2))
    out = torch.empty_like(seeds)
    functions["under_many"](seeds, positions, out, out.numel())
    assert torch.equal(out, random_bits(seeds, positions))
    functions["under_one"](seeds, out, out.numel())
    assert torch.equal(out, random_bits(seeds[:1], torch.arange(1003) * 2**33 + 5))
