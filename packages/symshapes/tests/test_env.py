"""`ShapeEnv`: symbols, guards, what follows from them, and their text."""

import math
import operator

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symshapes import (
    DimMark,
    DimPolicy,
    FloorDiv,
    MarkError,
    Mod,
    ShapeEnv,
    UnbackedError,
    ValueRange,
    constrain_range,
    expr_of,
    hint_of,
)

STATIC, DUCK, DYNAMIC, UNBACKED = DimPolicy.STATIC, DimPolicy.DUCK, DimPolicy.DYNAMIC, DimPolicy.UNBACKED


def check(env: ShapeEnv, values: dict[str, int]) -> bool:
    """The produced predicate on sizes by source; both of its forms must agree."""
    code = env.produce_guard_code()
    namespace: dict = {}
    exec(code.source, namespace)
    answer = namespace["check"](*[values[source] for source in code.arguments])
    text = code.code
    for source in sorted(values, key=len, reverse=True):
        text = text.replace(source, str(values[source]))
    assert bool(eval(text)) is bool(answer)
    return bool(answer)


def test_policies():
    env = ShapeEnv()
    assert env.create_size(5, "x.size(0)", STATIC) == 5
    a = env.create_size(5, "x.size(1)", DUCK)
    b = env.create_size(5, "y.size(0)", DUCK)
    c = env.create_size(5, "z.size(0)", DYNAMIC)
    assert expr_of(a) == expr_of(b) != expr_of(c)
    assert hint_of(a) == hint_of(c) == 5
    assert env.create_size(1, "x.size(2)", DUCK) == 1
    assert env.create_size(0, "x.size(3)", DYNAMIC) == 0
    assert env.create_size(5, "z.size(0)", DYNAMIC) is c
    u = env.create_size(1, "u.size(0)", UNBACKED)
    assert isinstance(u, torch.SymInt) and not u.node.has_hint()
    sizes = {"x.size(1)": 9, "y.size(0)": 9, "z.size(0)": 3, "x.size(2)": 1, "x.size(3)": 0}
    assert check(env, sizes)
    for source, wrong in [("y.size(0)", 8), ("x.size(2)", 2), ("x.size(3)", 1), ("z.size(0)", 1)]:
        assert not check(env, {**sizes, source: wrong})


def test_marked_range_is_a_guard_and_decides():
    env = ShapeEnv()
    s = env.create_size(8, "x.size(0)", DimMark(DYNAMIC, 4, 64))
    assert s >= 4 and s <= 64 and not s > 64
    assert env.guards == []
    assert env.produce_guard_code().code == "4 <= x.size(0) <= 64"
    with pytest.raises(ValueError, match="not within 4 to 6"):
        env.create_size(8, "y.size(0)", DYNAMIC, min=4, max=6)


def test_equal_sizes_become_one():
    env = ShapeEnv()
    s = env.create_size(8, "x.size(0)", DYNAMIC, min=2, max=64)
    t = env.create_size(8, "y.size(0)", DYNAMIC)
    assert s == t
    assert expr_of(t) == expr_of(s)
    assert bool(t * 2 == s + t)  # follows
    assert len(env.guards) == 1
    code = env.produce_guard_code()
    assert code.code == "x.size(0) == y.size(0) and 2 <= x.size(0) <= 64"
    assert check(env, {"x.size(0)": 5, "y.size(0)": 5})
    assert not check(env, {"x.size(0)": 5, "y.size(0)": 6})


def test_an_equation_bounds_what_it_replaces():
    env = ShapeEnv()
    s = env.create_size(8, "x.size(0)", DYNAMIC)
    t = env.create_size(5, "y.size(0)", DYNAMIC)
    assert t == s - 3
    assert env.range_of(expr_of(s)) == ValueRange(5, float("inf"))
    assert env.statically_known((s > 4).node.expr if isinstance(s > 4, torch.SymBool) else s > 4)
    assert check(env, {"x.size(0)": 6, "y.size(0)": 3})
    assert not check(env, {"x.size(0)": 4, "y.size(0)": 1})


def test_divisibility():
    env = ShapeEnv()
    s = env.create_size(24, "x.size(0)", DYNAMIC)
    assert s % 8 == 0
    assert len(env.guards) == 1
    assert s % 4 == 0 and (3 * s) % 24 == 0 and (s + 16) % 8 == 0
    assert 8 * (s // 8) == s
    assert (s // 8) * 2 * 4 + 1 == s + 1
    assert len(env.guards) == 1
    assert env.produce_guard_code().code == "x.size(0) % 8 == 0 and 8 <= x.size(0)"
    assert check(env, {"x.size(0)": 32})
    assert not check(env, {"x.size(0)": 36})


def test_ranges_come_from_guards_and_duplicates_are_not_kept():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    assert s < 100
    assert s < 100 and s < 101 and 2 * s < 200
    assert s > 3
    assert s + 1 > 4
    assert len(env.guards) == 2
    assert env.produce_guard_code().code == "4 <= x.size(0) <= 99"


def test_weaker_guards_are_dropped_when_stronger_ones_follow():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    t = env.create_size(7, "y.size(0)", DYNAMIC)
    assert s + t < 1000
    assert s < 100
    assert t < 100
    assert int(t) == 7
    assert env.produce_guard_code().code == "2 <= x.size(0) <= 99 and y.size(0) == 7"


def test_int_specialises_and_is_reported():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    t = env.create_size(10, "y.size(0)", DYNAMIC)
    assert s == t
    assert int(s) == 10
    assert expr_of(t) == 10
    found = [(one.source, one.value, one.operator) for one in env.specializations()]
    assert found == [("y.size(0)", "x.size(0)", ""), ("x.size(0)", 10, ""), ("y.size(0)", 10, "")]
    assert all(one.user_line.startswith("test_env.py:") for one in env.specializations())
    assert env.produce_guard_code().code == "x.size(0) == 10 and y.size(0) == 10"


def test_guards_name_the_users_line():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    assert s < 20
    assert env.guards[0].user_line.startswith("test_env.py:")
    assert env.guards[0].user_line.endswith("in test_guards_name_the_users_line")
    assert env.guards[0].text == "x.size(0) <= 19"
    elsewhere = ShapeEnv(locate=lambda: "model.py:3 in forward")
    assert elsewhere.create_size(10, "x.size(0)", DYNAMIC) < 20
    assert elsewhere.guards[0].user_line == "model.py:3 in forward"


def test_unbacked_values_decide_nothing():
    env = ShapeEnv()
    u = env.create_unbacked_int()
    with pytest.raises(UnbackedError):
        bool(u > 3)
    constrain_range(u, 4, 10)
    assert u > 3
    assert [guard.text for guard in env.runtime_asserts] == ["u0 >= 4", "u0 <= 10"]
    assert env.guards == []
    torch._check(u != 7)
    assert u != 7
    assert len(env.runtime_asserts) == 3


def test_an_unbacked_value_is_replaced_by_a_backed_one_and_not_the_reverse():
    env = ShapeEnv()
    u = env.create_unbacked_int(0)
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    torch._check(u == s)
    assert expr_of(u) == expr_of(s)
    assert [guard.text for guard in env.runtime_asserts] == ["x.size(0) == u0"]
    assert u < 20
    assert [guard.text for guard in env.guards] == ["x.size(0) <= 19"]
    v = env.create_unbacked_int(0)
    t = env.create_size(10, "y.size(0)", DYNAMIC)
    torch._check(2 * v == t)
    assert expr_of(t).is_Symbol and bool(2 * v == t)


def test_constrain_range_of_a_size_is_a_guard():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    constrain_range(s, 2, 64)
    assert env.produce_guard_code().code == "2 <= x.size(0) <= 64"
    with pytest.raises(ValueError, match="is 10"):
        constrain_range(s, 11)
    constrain_range(3, 1, 4)
    with pytest.raises(ValueError, match="5 is not within 1 to 4"):
        constrain_range(5, 1, 4)


def test_size_oblivious():
    env = ShapeEnv()
    u = env.create_size(3, "x.size(0)", UNBACKED)
    assert env.evaluate_size_oblivious((u == 1).node.expr) is False
    assert env.evaluate_size_oblivious((u == 0).node.expr) is False


def test_floats_and_ints_of_the_program():
    env = ShapeEnv()
    f, n = env.create_float(0.5, "scale"), env.create_int(-3, "shift")
    assert f < 1.0 and n < 0
    assert [guard.text for guard in env.guards] == ["scale < 1.0", "shift + 1 <= 0"]
    assert check(env, {"scale": 0.25, "shift": -8})
    assert not check(env, {"scale": 1.5, "shift": -8})
    assert not check(env, {"scale": 0.5, "shift": 8})
    assert not check(env, {"scale": 0.5, "shift": -(2**63)})
    with pytest.raises(ValueError, match="no word has room"):
        env.create_int(2**63, "seed")
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC)
    assert int(torch.sym_float(s) * 0.3) == 3
    code = env.produce_guard_code()
    assert code.source.startswith("import math\n")
    namespace: dict = {}
    exec(code.source, namespace)
    assert namespace["check"](11) and not namespace["check"](14)
    for bad in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="cannot be guarded"):
            env.create_float(bad, "scale")


def test_ranges_of_floats_decide():
    env = ShapeEnv()
    s = env.create_size(10, "x.size(0)", DYNAMIC, max=64)
    assert s * 0.5 >= 1.0 and s / 2 <= 32.0 and math.floor(s * 0.5) >= 1
    assert torch.sym_sqrt(s) <= 8.0
    assert env.guards == []


def test_simplify_and_evaluate_take_expressions():
    env = ShapeEnv()
    s = expr_of(env.create_size(24, "x.size(0)", DYNAMIC))
    assert env.evaluate(sympy.Eq(Mod(s, 8), 0)) is True
    assert env.simplify(8 * FloorDiv(s, 8) + Mod(s, 4)) == s
    assert env.evaluate(FloorDiv(s, 5)) == 4
    assert env.simplify(FloorDiv(s, 5)) == 4
    assert env.symint(FloorDiv(s, 5)) == 4


COMPARE = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(COMPARE)),
        st.sampled_from(
            ["s", "t", "s+t", "s*t", "s-t", "s//2", "s%3", "s//4*4", "t%4", "(s+t)//3", "s*2-t", "max", "s/2"]
        ),
        st.one_of(st.integers(-2, 14), st.sampled_from(["s", "t", "s-1", "2*t", "s//2"])),
    ),
    min_size=1,
    max_size=6,
)


def program(steps, s, t):
    """The answers to a list of questions on two sizes."""
    names = {"s": s, "t": t}
    value = {"max": lambda: torch.sym_max(s, t)}
    answers = []
    for compare, left, right in steps:
        a = value[left]() if left in value else eval(left, {}, names)
        b = eval(right, {}, names) if isinstance(right, str) else right
        answers.append(bool(COMPARE[compare](a, b)))
    return answers


@settings(max_examples=80, deadline=None)
@given(STEPS, st.integers(2, 13), st.integers(2, 13), st.sampled_from([DUCK, DYNAMIC]))
def test_where_the_guards_hold_the_answers_hold(steps, s, t, policy):
    env = ShapeEnv()
    symbolic = program(steps, env.create_size(s, "a", policy), env.create_size(t, "b", policy))
    assert symbolic == program(steps, s, t)
    code = env.produce_guard_code()
    namespace: dict = {}
    exec(code.source, namespace)
    for a in range(16):
        for b in range(16):
            values = {"a": a, "b": b}
            if namespace["check"](*[values[source] for source in code.arguments]):
                assert program(steps, a, b) == symbolic
    values = {"a": s, "b": t}
    assert namespace["check"](*[values[source] for source in code.arguments])


def test_unbacked_sizes_of_one_name_are_one_symbol_within_what_was_promised():
    env = ShapeEnv()
    mark = DimMark(DimPolicy.UNBACKED, 0, 64, "batch")
    s = env.create_size(0, "x.size(0)", mark)
    t = env.create_size(0, "y.size(0)", mark)
    assert expr_of(s) == expr_of(t)
    code = env.produce_guard_code()
    assert code.code == "0 <= x.size(0) <= 64 and x.size(0) == y.size(0)"
    assert check(env, {"x.size(0)": 1, "y.size(0)": 1})
    assert not check(env, {"x.size(0)": 65, "y.size(0)": 65})
    with pytest.raises(MarkError, match="are both marked 'batch', and are 3 and 0"):
        env.create_size(3, "z.size(0)", mark)


def test_a_promise_broken_by_way_of_another_size():
    env = ShapeEnv(locate=lambda: "model.py:31")
    s = env.create_size(8, "x.size(0)", DimMark(DYNAMIC, 2, 64))
    t = env.create_size(8, "y.size(0)", DYNAMIC)
    assert s == t
    env.check_marks()
    assert t < 20
    with pytest.raises(MarkError, match=r"from 2 to 64, but the program was captured for sizes from 2 to 19 only"):
        env.check_marks()


def test_guards_say_why_they_are_there():
    lines = iter(f"model.py:{n}" for n in range(1, 100))
    env = ShapeEnv(locate=lambda: next(lines))
    s = env.create_size(16, "x.size(0)", DYNAMIC)
    t = env.create_size(16, "y.size(0)", DUCK)
    u = env.create_size(16, "z.size(0)", DUCK)
    v = env.create_size(8, "x.size(1)", DimMark(DYNAMIC, max=64, name="columns"))
    env.create_size(1, "w.size(0)", DYNAMIC)
    env.create_int(-3, "step")
    assert t is not u and 2 * s * v <= 4096 and s % 8 == 0 and t > 3 and s * v <= 1024
    assert str(env.produce_guard_code()).splitlines() == [
        "x.size(0) % 8 == 0, from model.py:3",
        "8 <= x.size(0), from model.py:3",
        "4 <= y.size(0), from model.py:4",
        "2 <= x.size(1) <= 64, as marked",
        f"{1 - 2**62} <= step <= {2**62 - 1}, as a machine word holds it",
        "y.size(0) == z.size(0), since they were equal",
        "w.size(0) == 1, since 0 and 1 are compiled for apart",
        "x.size(0)*x.size(1) <= 1024, from model.py:5",
    ]


def test_all_that_cancels_in_a_product_does():
    env = ShapeEnv()
    a, b = env.create_size(6, "a", DYNAMIC), env.create_size(8, "b", DYNAMIC)
    assert a % 2 == 0 and b % 2 == 0
    guards, x, y = len(env.guards), expr_of(a), expr_of(b)
    halves = 8 * FloorDiv(x, sympy.Integer(2)) * FloorDiv(y, sympy.Integer(2))
    assert env.simplify(halves) == 2 * x * y
    assert env.statically_known(sympy.Eq(halves, 2 * x * y, evaluate=False)) is True and len(env.guards) == guards


def test_what_cancels_within_what_is_left_after_cancelling_does():
    env = ShapeEnv()
    a = env.create_size(12, "a", DYNAMIC)
    assert a % 2 == 0
    x = expr_of(a)
    half, odd = FloorDiv(x, sympy.Integer(2)), Mod(-FloorDiv(x, sympy.Integer(2)), sympy.Integer(2))
    assert env.simplify(32 * FloorDiv(half + odd, sympy.Integer(2))) == 8 * x + 16 * odd


def test_a_product_is_divisible_by_what_divides_a_factor():
    env = ShapeEnv()
    s = env.create_size(16, "x.size(0)", DYNAMIC)
    t = env.create_size(5, "y.size(0)", DYNAMIC)
    assert s % 8 == 0
    assert (s * t) % 8 == 0 and (s * t + 8) % 4 == 0
    assert len(env.guards) == 1
    assert (s * t) % 5 == 0  # of this nobody knows
    assert len(env.guards) == 2


def test_of_alternatives_what_is_left_holds():
    env = ShapeEnv()
    n = env.create_unbacked_int()
    assert env.expect_true(((n == 3) | (n == -1)).node.expr)
    assert env.statically_known((n == 3).node.expr) is None
    assert env.expect_true((n >= 0).node.expr)
    assert env.simplify(n.node.expr) == 3
    k = env.create_unbacked_size()
    assert env.expect_true(((k == 5) | (k == -1)).node.expr)  # of which one part does not hold from the start
    assert env.simplify(k.node.expr) == 5
