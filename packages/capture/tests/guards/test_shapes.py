"""Conditions on sizes: the native stack machine against Python itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import _native
from capture.guards import Guard, GuardKind, ShapePredicate, Size, build_tree, guard_program
from capture.guards.shapes import compile_predicate, steps_of
from capture.sources import Local

NAMES = ("a", "b", "c")
INPUTS = tuple(Size(Local(name), "value") for name in NAMES)


def frame(a, b, c):
    pass


def predicate(code):
    return ShapePredicate(INPUTS, NAMES, code)


def native(code):
    made = predicate(code)
    assert steps_of(made) is not None
    return guard_program(build_tree([Guard(None, GuardKind.SHAPE, made)]), frame.__code__)


def python(code, values):
    try:
        return bool(compile_predicate(predicate(code))(*values))
    except ZeroDivisionError:
        return False


numbers = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(-50, 50).map(lambda n: f"({n})")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(-{e})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    ),
    max_leaves=8,
)
comparisons = st.tuples(numbers, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), numbers).map(" ".join)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda e: f"(not ({e}))"),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(code=conditions, values=st.tuples(*[st.integers(-100, 1000)] * 3))
def test_same_as_python(code, values):
    result = native(code).check(values)
    if result != python(code, values):
        # Only where Python would not have come to a division by zero.
        assert not result and ("//" in code or "%" in code)


@pytest.mark.parametrize(
    "code, values, expected",
    [
        ("0 < a < b < c", (1, 2, 3), True),
        ("0 < a < b < c", (1, 3, 2), False),
        ("a // b == -2 and a % b == 1", (-3, 2, 0), True),
        ("a // b == -2 and a % b == -1", (3, -2, 0), True),
        ("a % b == 0", (4, 0, 0), False),
        ("a * b * c > 0", (2**40, 2**40, 2**40), False),  # does not fit: no guard holds
        ("not (a == b)", (1, 2, 0), True),
        ("max(a, b, c) == c", (1, 2, 3), True),
        ("True", (0, 0, 0), True),
        ("2 <= a <= 5 and b == 3", (5, 3, 0), True),
        ("2 <= a <= 5", (6, 0, 0), False),
        ("2 <= a <= 5", (2, 0, 0), True),
        ("2 <= a <= b", (3, 4, 0), True),
        ("2 < a", (2, 0, 0), False),
        ("5 >= a", (6, 0, 0), False),
        ("a != 5", (5, 0, 0), False),
        ("a == b * c", (6, 2, 3), True),
        ("a * b == c", (2, 3, 6), True),
        ("a * b == c", (6, 2, 3), False),
        ("a == b * 4 * c", (24, 2, 3), True),
        ("a == b * c", (0, 2**40, 2**40), False),
        ("a == b + c", (5, 2, 3), True),
        ("a ** 3 == b", (3, 27, 0), True),
        ("abs(a) == 3", (-3, 0, 0), True),
        ("a", (5, 0, 0), True),
    ],
)
def test_cases(code, values, expected):
    assert native(code).check(values) is expected


@pytest.mark.parametrize("code", ["a ** b == 4", "a ** 9 == 1", "a / b == 2", "a or b", "a if b else c", "d == 1"])
def test_what_needs_python(code):
    assert steps_of(predicate(code)) is None


def test_in_python():
    made = guard_program(build_tree([Guard(None, GuardKind.SHAPE, predicate("a ** b / a == a"))]), frame.__code__)
    assert made.check((3, 2, 0)) and not made.check((3, 3, 0))


@pytest.mark.parametrize(
    "steps",
    [[("add", 0)], [("push", 1), ("push", 1)], [("input", 3)], [("input", -1)], [("jump", 1)], [], [("push", 1)] * 300],
)
def test_unsafe_steps_are_refused(steps):
    inputs = tuple((register, 3, 0) for register in range(3))
    reads = [("local", i, -1, i, None, 0) for i in range(3)]
    with pytest.raises(ValueError):
        _native.GuardProgram([*reads, ("shape", -1, -1, 0, (inputs, [(steps, 0)]), 0)], ["text"], 3)


@pytest.mark.parametrize(
    "instruction",
    [
        ("local", 5, -1, 0, None, 0),
        ("local", 0, -1, -1, None, 0),
        ("local", 0, -1, 0, None, 7),
        ("type", -1, 0, 0, int, 0),
        ("attr", 0, 0, 0, "name", 0),
        ("global", 0, -1, 0, 5, 0),
        ("distinct", -1, -1, 0, (0,), 0),
        ("nothing", 0, 0, 0, None, 0),
    ],
)
def test_unsafe_programs_are_refused(instruction):
    with pytest.raises(ValueError):
        _native.GuardProgram([instruction], ["text"], 1)


def test_conditions_are_checked_together_and_fail_by_name():
    conditions = ["a >= 2", "b == a * c", "c != 7"]
    guards = [Guard(None, GuardKind.SHAPE, predicate(code)) for code in conditions]
    made = guard_program(build_tree(guards), frame.__code__)
    assert made.check((3, 12, 4))
    for values, failed in (((1, 4, 4), 0), ((3, 11, 4), 1), ((3, 21, 7), 2)):
        assert not made.check(values)
        assert made.explain_failure(values) == str(guards[failed])
