# ruff: noqa
"""math, cmath, random, bisect, heapq, fractions, decimal, numbers: on plain numbers and on sizes."""

from __future__ import annotations

import bisect
import cmath
import decimal
import fractions
import heapq
import math
import numbers
import random

import torch

from .registry import outcome, program


class Half:
    def __floor__(self):
        return "floor"

    def __ceil__(self):
        return "ceil"

    def __trunc__(self):
        return "trunc"

    def __float__(self):
        return 0.25

    def __index__(self):
        return 12


@program
def math_functions(x):
    n = x.shape[1]
    return (
        math.sqrt(n), math.floor(n / 3), math.ceil(n / 3), math.gcd(n, 6), math.lcm(n, 6), math.comb(n, 2), math.perm(n, 2),
        math.factorial(n), math.isqrt(n * 5), math.prod([n, 2, 3]), math.fsum([0.1] * 10), math.hypot(3, n), math.dist([0, n], [3, 0]),
        math.log(n), math.log2(n), math.log10(n), math.log(n, 2), math.exp(1.0), math.pow(n, 0.5), math.fmod(n, 3), math.remainder(n, 3),
        math.trunc(2.7), math.copysign(n, -0.0), math.isclose(n, 4.0), math.isfinite(n), math.isnan(math.nan), math.isinf(-math.inf),
        math.modf(2.5), math.frexp(8.0), math.ldexp(0.5, 4), math.degrees(math.pi), math.radians(180), math.tau, math.e, math.fabs(-n),
        math.erf(0.5), math.gamma(5), math.lgamma(5), math.expm1(1e-5), math.log1p(1e-5), math.cbrt(27.0), math.exp2(3), math.ulp(1.0),
        math.nextafter(1.0, 2.0), math.atan2(1, n), math.sinh(1), math.asin(0.5),
    )  # fmt: skip


@program
def math_errors(x):
    out = []
    for f in (
        lambda: math.sqrt(-1),
        lambda: math.log(0),
        lambda: math.factorial(-1),
        lambda: math.exp(1000),
        lambda: math.gcd(1.5),
        lambda: math.sqrt("a"),
    ):
        try:
            f()
        except (ValueError, OverflowError, TypeError) as e:
            out.append((type(e).__name__, str(e)))
    return x, out


@program
def math_of_objects(x):
    h = Half()
    return x, math.floor(h), math.ceil(h), math.trunc(h), float(h)


@program
def complex_math(x):
    z = complex(3, 4)
    return (
        x * 1j,
        cmath.sqrt(-1),
        cmath.phase(z),
        cmath.polar(z),
        cmath.rect(1, 0),
        cmath.exp(0),
        abs(z),
        z.conjugate(),
        z.real,
    )


@program
def break_at_random_state(x):
    random.seed(7)
    a = [random.random(), random.randint(1, 6), random.choice("abc"), random.uniform(0, 2)]
    state = random.getstate()
    b = random.gauss(0, 1)
    items = list(range(5))
    random.shuffle(items)
    picked = random.sample(range(10), 3)
    random.setstate(state)
    return x * a[0], a, b == random.gauss(0, 1), items, picked, random.choices([1, 2], k=3)


@program
def break_at_random_own_generator(x):
    r = random.Random(3)
    return x * r.random(), r.randrange(10), r.getrandbits(8), r.choice([1, 2, 3])


@program
def bisecting(x):
    a = [1, 3, 3, 7]
    bisect.insort(a, 4)
    bisect.insort_left(a, 3)
    return (
        x, a, bisect.bisect(a, 3), bisect.bisect_left(a, 3), bisect.bisect_right(a, 3, 0, 2),
        bisect.bisect_left([("a", 1), ("b", 2)], 2, key=lambda r: r[1]),
    )  # fmt: skip


@program
def heaps(x):
    h = [5, 1, 4, 2]
    heapq.heapify(h)
    heapq.heappush(h, 3)
    out = [heapq.heappop(h), heapq.heappushpop(h, 0), heapq.heapreplace(h, 9)]
    tagged = []
    for n, v in ((2, x), (1, x + 1)):
        heapq.heappush(tagged, (n, v))
    return (
        out, h, heapq.nlargest(2, [3, 1, 4]), heapq.nsmallest(2, ["bb", "a", "ccc"], key=len),
        list(heapq.merge([1, 4], [2, 3])), heapq.heappop(tagged)[1],
    )  # fmt: skip


@program
def heaps_that_are_none(x):
    calls = (
        lambda: heapq.heappop([]),
        lambda: heapq.heapreplace([], 1),
        lambda: heapq.heappush((1, 2), 3),
        lambda: heapq.heappushpop((1,), 1),
        lambda: heapq.heappop(None),
        lambda: heapq.heapreplace("a", 1),
        lambda: heapq.heapify((1, 2)),
        lambda: heapq.heapify([1, "a"]),
    )
    return x, [outcome(call) for call in calls]


@program
def fraction_numbers(x):
    a, b = fractions.Fraction(1, 3), fractions.Fraction("0.25")
    c = a + b
    return (
        x * float(c),
        c.numerator,
        c.denominator,
        str(c),
        a < b,
        c.limit_denominator(5) == a,
        round(c, 1) == 0.6,
        int(c * 12),
    )


@program
def break_at_decimal_numbers(x):
    d = decimal.Decimal("1.10") + decimal.Decimal("2.205")
    return x * float(d), str(d), str(d.quantize(decimal.Decimal("0.01"))), d > 3, str(d / 3)[:8]


@program
def abstract_numbers(x):
    values = (1, 1.5, 2j, True, fractions.Fraction(1, 2), "s")
    return x, [[isinstance(v, c) for c in (numbers.Number, numbers.Real, numbers.Integral)] for v in values]


@program
def integer_methods(x):
    n = x.shape[0] * 100
    return (
        x, n.bit_length(), (n).bit_count(), n.to_bytes(2, "big"), int.from_bytes(b"\x01\x02", "little"), (0.75).as_integer_ratio(),
        (2.0).is_integer(), float.fromhex("0x1p-2"), (0.5).hex(), divmod(n, 7), pow(n, 3, 11), round(n, -2), int("ff", 16), n.conjugate(),
        f"{n:>6,d}|{n / 7:.3e}|{n:#x}|{0.256:.1%}",
    )  # fmt: skip
