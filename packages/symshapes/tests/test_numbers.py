"""Python's functions of numbers for symbolic ones: Python's bits, a guard where there is no value, and guards that hold bit for bit."""

import math
import operator
import struct

import pytest
import torch

from symshapes import DimPolicy, ShapeEnv, evaluate, number_function, print_expr
from symshapes.expr.floats import FLOAT_FUNCTIONS, constant

NEVER = {"FloatNeg", "FloatAdd", "FloatSub", "FloatMul", "FloatDiv", "IntTrueDiv"}  # operators, not functions
ARGUMENTS = {
    1: [(-3,), (0,), (5,), (0.25,), (-0.0,), (2.5,), (-7.75,), (math.inf,), (math.nan,), (10**30,), (800,)],
    2: [(-3, 2), (6, 4), (7, 0), (2.5, -1.5), (-8.0, 0.5), (0.0, -0.0), (math.inf, 3), (5, 1.5), (2**70, 6)],
    3: [(7, 2, 5), (3, 5, 7), (0.1, 0.2, 0.3)],
}


def env_of(*hints):
    env = ShapeEnv()
    return env, [env.create_size(hint, f"x.size({i})", DimPolicy.DYNAMIC) for i, hint in enumerate(hints)]


def bits(number):
    if isinstance(number, float):
        return "nan" if number != number else struct.pack("d", number)
    return type(number), number


def outcome(function, *args):
    try:
        return bits(function(*args))
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error)


def through_symbols(name, values):
    """The function of symbolic numbers, of which the values are: constants with a symbolic zero added, or times one."""
    env, (n,) = env_of(3)
    zero = n * 0.5 - 1.5  # -0.0 and 0.0 keep their sign beside it only as a product
    symbolic = [(n - 3 + v) if isinstance(v, int) else _times_one(n, v) for v in values]
    assert zero.node.hint == 0
    result = number_function(name)(*symbolic)
    node = result.node
    assert bits(node.hint) == bits(evaluate(node.expr, env.hints)) or isinstance(node.hint, bool)
    printed = eval(print_expr(node.expr), {"math": math, "operator": operator, "s0": 3})
    assert bits(printed) == bits(node.hint) or printed == node.hint
    return node.hint


def _times_one(n, value):
    return torch.sym_float(n) / 3.0 * value


@pytest.mark.parametrize("name", sorted(set(FLOAT_FUNCTIONS) - NEVER))
def test_as_python_computes_it(name):
    function = number_function(name)
    defined = 0
    for count, rows in ARGUMENTS.items():
        for values in rows:
            if name.startswith("Int") and not all(isinstance(v, int) for v in values):
                continue
            expected = outcome(function, *values)
            got = outcome(lambda *v: through_symbols(name, v), *values)
            if isinstance(expected, type):
                assert isinstance(got, type), (values, got)
                continue
            if name == "FloatPow" and isinstance(function(*values), complex):
                assert got is TypeError
                continue
            defined += 1
            assert got == expected, (count, values)
    assert defined


def test_by_pythons_function():
    assert number_function(math.log)(8) == math.log(8)
    assert number_function(math.isnan)(math.nan) is True
    assert number_function(len) is None and number_function("Nothing") is None
    with pytest.raises(ValueError, match=r"math domain error|positive"):
        number_function(math.log)(-1)


UNDEFINED = {
    "division": (lambda n: 1 / (n - 5), 8, 5),
    "division of floats": (lambda n: 1.5 / (n - 5.0), 8, 5),
    "remainder of floats": (lambda n: 1.5 % (n - 5.0), 8, 5),
    "floor division of floats": (lambda n: 1.5 // (n - 5.0), 8, 5),
    "square root": (lambda n: torch.sym_sqrt(n - 5), 8, 4),
    "logarithm": (lambda n: number_function(math.log)(n - 5), 8, 5),
    "logarithm to a base": (lambda n: number_function(math.log)(7, n - 1), 8, 2),
    "exponential": (lambda n: number_function(math.exp)(n), 8, 800),
    "a power that overflows": (lambda n: 10.0**n, 8, 400),
    "a power that is complex": (lambda n: (n - 5.0) ** 0.5, 8, 4),
    "a negative power of zero": (lambda n: (n - 5.0) ** -1.0, 8, 5),
    "whole of an infinity": (lambda n: math.floor(1e308 * (n * 0.125)), 8, 80),
    "shift": (lambda n: 1 << (n - 5), 8, 4),
    "inverse sine": (lambda n: number_function(math.asin)(n / 8), 8, 9),
    "factorial": (lambda n: number_function(math.factorial)(n - 5), 8, 4),
    "root of an int": (lambda n: number_function(math.isqrt)(n - 5), 8, 4),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_size_for_which_there_is_no_value_fails_the_guard(name):
    compute, good, bad = UNDEFINED[name]
    env, (n,) = env_of(good)
    compute(n)
    space = {}
    exec(env.produce_guard_code().source, space)
    assert space["check"](good)
    try:
        assert not space["check"](bad)
    except (ArithmeticError, ValueError):
        pass  # a guard that raises does not hold
    with pytest.raises((ArithmeticError, ValueError, TypeError)):
        compute(env_of(bad)[1][0])


def test_what_always_has_a_value_needs_no_guard():
    env, (n, m) = env_of(8, 3)
    number = number_function
    for made in (
        n**-0.5, 1 / n, n % 0.3, n // 0.5, torch.sym_sqrt(n), number(math.log)(n), number(math.log2)(n * m), number(math.cos)(math.pi * n / m),
        math.ceil(n / 3), round(n * 0.37), number(math.atan)(n), number(math.isqrt)(n), 2**n, 1 << n, n & 6, number(math.gcd)(n, m),
        math.floor(number(math.log2)(n)), number("FloatRoundTo")(number(math.tanh)(n / m), 3) * 0.5,
    ):  # fmt: skip
        assert isinstance(made, torch.SymInt | torch.SymFloat)
    # Rounding to digits may overflow, as far as anybody knows here.
    assert all("round" in guard.text for guard in env.guards)


def test_a_float_is_guarded_bit_for_bit():
    env, (n,) = env_of(3)
    assert bits(float((n - 3.0) * -1.0)) == bits(-0.0)
    assert bits(float(n * -0.0)) == bits(-0.0)
    space = {}
    exec(env.produce_guard_code().source, space)
    assert space["check"](3) and not space["check"](4)
    env, (n, m) = env_of(3, 4)
    assert bits(float((n - 3.0) * (m - 5))) == bits(-0.0)
    exec(env.produce_guard_code().source, space)
    assert space["check"](3, 4) and not space["check"](3, 5) and not space["check"](3, 6)
    env, (n,) = env_of(3)
    assert math.isnan(float(n * math.nan)) and float(n * math.inf) == math.inf
    exec(env.produce_guard_code().source, space)
    assert space["check"](3) and space["check"](4)


def test_constants_keep_sign_and_kind():
    for value in (-0.0, 0.0, math.inf, -math.inf, math.nan, 0.1):
        assert bits(evaluate(constant(value), {})) == bits(value)
        assert bits(eval(print_expr(constant(value)))) == bits(value)
    env, (n,) = env_of(3)
    assert (n < math.inf) is True or bool(n < math.inf)
    assert not bool(n * math.nan == n * math.nan)
    assert bool(env.evaluate((n * math.inf == math.inf).node.expr))


def test_an_int_is_compared_with_a_float_exactly():
    _, (n,) = env_of(3)
    big = n - 3 + 2**53 + 1
    assert not bool(big == float(2**53)) and bool(big > float(2**53)) and bool(float(2**53) < big)
    assert not bool(torch.sym_float(n) * 2.0**53 / 3.0 == big)
    assert not bool(n == 3.5) and bool(n != 3.5) and bool(n <= 3.5)


def test_bits():
    for hint in (2, 5, 12, 255, 256):
        env, (n,) = env_of(hint)
        for mask in (0, 1, 3, 6, 255, -1, -4, -6, n, 2 * n + 1):
            other = mask if isinstance(mask, int) else mask.node.hint
            for operation in (operator.and_, operator.or_, operator.xor):
                for made, expected in (
                    (operation(n, mask), operation(hint, other)),
                    (operation(-n, mask), operation(-hint, other)),
                ):
                    node = getattr(made, "node", None)
                    assert (made if node is None else node.hint) == expected
                    assert node is None or evaluate(node.expr, env.hints) == expected
        assert env.guards == []


def test_floats_have_no_bits():
    _, (n,) = env_of(3)
    for operation in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        for left, right in ((n * 0.5, 2), (n, 0.5), (n * 0.5, n), (2, n * 0.5)):
            with pytest.raises(TypeError):
                operation(left, right)


def test_a_shift_by_more_bits_than_memory_has():
    _, (n,) = env_of(3)
    assert (n >> 2**62).node.hint == 0


@pytest.mark.parametrize("operation", [operator.truediv, operator.floordiv, operator.mul, operator.sub, operator.pow])
def test_ints_that_turned_out_to_be_constants_beside_floats(operation):
    env, (n,) = env_of(3)
    assert n == 3  # the guard leaves one value
    number = env.create_float(2.5, "q")
    for left, right in ((n, 2.5), (2.5, n), (n, number), (number, n)):
        expected = operation(*(3 if v is n else 2.5 for v in (left, right)))
        assert bits(float(operation(left, right))) == bits(expected)
