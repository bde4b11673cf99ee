"""`torch.SymInt` and friends on our nodes: Python's arithmetic, and torch's C++ on top."""

import copy
import math
import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symshapes import DimPolicy, ShapeEnv, SymNode, evaluate, expr_of, hint_of


def make(*hints):
    env = ShapeEnv()
    return env, [env.create_size(hint, f"x.size({i})", DimPolicy.DYNAMIC) for i, hint in enumerate(hints)]


BINARY = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv, torch.sym_max]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
UNARY = [operator.neg, operator.pos, abs, math.floor, math.ceil, math.trunc, round]


def plain(value):
    """The number that a result stands for, and a check that its expression says the same on the hints."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    node = value.node
    assert isinstance(node, SymNode)
    assert evaluate(node.expr, node.env.hints) == hint_of(value)
    assert type(hint_of(value)) is node.pytype
    return hint_of(value)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_arithmetic_equals_pythons(data):
    hints = data.draw(st.lists(st.integers(2, 50), min_size=2, max_size=2))
    _, symbolic = make(*hints)
    pairs = list(zip(symbolic, hints, strict=True))
    for _ in range(data.draw(st.integers(1, 8))):
        (a, a_plain), (b, b_plain) = (
            data.draw(st.sampled_from(pairs)),
            data.draw(st.one_of(st.sampled_from(pairs), st.integers(-9, 9).map(lambda n: (n, n)), st.just((0.5, 0.5)))),
        )
        if data.draw(st.booleans()):
            a, a_plain, b, b_plain = b, b_plain, a, a_plain
        op = data.draw(st.sampled_from(BINARY + COMPARE))
        try:
            expected = op(a_plain, b_plain)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                op(a, b)
            continue
        result = op(a, b)
        got = plain(result)
        assert got == expected and type(got) is type(expected)
        if op in BINARY:
            pairs.append((result, expected))
            if data.draw(st.booleans()):
                unary = data.draw(st.sampled_from(UNARY))
                assert plain(unary(result)) == unary(expected)


def test_other_operators():
    env, (s, t) = make(8, 3)
    assert hint_of(s**2) == 64 and hint_of(2**t) == 8
    assert plain(s << 2) == 32 and plain(s >> 1) == 4
    assert plain(s & 12) == 8
    env, (s, t) = make(8, 3)
    assert plain(torch.sym_sqrt(s)) == math.sqrt(8)
    assert plain(torch.sym_float(s)) == 8.0
    assert plain(torch.sym_int(s / 3)) == 2
    assert plain(torch.sym_not(s > 9)) is True
    assert plain(torch.sym_min(s, 2.5)) == 2.5
    assert plain(torch.sym_sum([s, t, 1])) == 12
    assert plain((s > 3) & (t > 5)) is False and plain((s > 3) | (t > 5)) is True
    assert plain(s**0.5) == 8**0.5
    assert env.guards == []
    assert expr_of(torch.sym_ite(s > 3, s, t)) == expr_of(s)
    assert [guard.text for guard in env.guards] == ["x.size(0) >= 4"]


def test_constants_come_back_as_python_numbers():
    _, (s,) = make(8)
    assert type(s - s) is int and type(s * 0) is int
    assert ((s == s) is True and (s > 1) is True) or bool(s > 1)


def test_python_protocols_specialise_with_a_guard():
    for use in (int, range, lambda s: [0] * 20 and list(range(20))[s], float, operator.index, lambda s: "x" * s):
        env, (s,) = make(8)
        use(s)
        assert [guard.text for guard in env.guards] == ["x.size(0) == 8"]
    env, (s,) = make(8)
    assert f"{s}" == "s0" and repr(s + 1) == "s0 + 1"
    with pytest.raises(TypeError, match="unhashable"):
        hash(s)
    assert copy.deepcopy(s + 1).node.env is env


def test_division_guards_that_the_divisor_is_not_zero():
    env, (s, t) = make(8, 5)
    assert plain(s // (t - 3)) == 4
    assert [guard.text for guard in env.guards] == ["x.size(1) != 3"]
    with pytest.raises(ZeroDivisionError):
        s % (t - 5)


def test_meta_tensors_carry_symbols_through_torch():
    env, (s, t) = make(8, 8)
    x, y = torch.empty(s, 4, device="meta"), torch.empty(t, 4, device="meta")
    assert expr_of(x.size(0)) == expr_of(s) and x.shape[1] == 4
    assert expr_of(x.numel()) == 4 * expr_of(s)
    assert x.is_contiguous() and not x.t().is_contiguous()
    assert env.guards == []
    assert expr_of((x + y).shape[0]) == expr_of(s)
    assert [guard.text for guard in env.guards] == ["x.size(0) == x.size(1)"]
    assert expr_of(torch.mm(x, torch.empty(4, 3, device="meta")).shape[0]) == expr_of(s)
    assert len(env.guards) == 1


class Wrapper(torch.Tensor):
    """A tensor with only metadata."""

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        raise NotImplementedError


def wrapper(size, stride):
    return torch.Tensor._make_wrapper_subclass(Wrapper, size, strides=stride, dtype=torch.float32, device="cpu")


def test_memory_formats_of_wrappers():
    env, (s, c) = make(8, 5)
    x = wrapper((s, c, 6, 7), (c * 42, 42, 7, 1))
    assert x.is_contiguous() and not x.is_contiguous(memory_format=torch.channels_last)
    y = wrapper((s, c, 6, 7), (c * 42, 1, 7 * c, c))
    assert not y.is_contiguous() and y.is_contiguous(memory_format=torch.channels_last)
    z = wrapper((s, 1, c), (c, c, 1))
    assert z.is_contiguous()
    w = wrapper((s, c, 4, 6, 7), (c * 168, 1, 42 * c, 7 * c, c))
    assert w.is_contiguous(memory_format=torch.channels_last_3d)
    assert all("== " not in guard.text for guard in env.guards)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=4, max_size=5),
    st.permutations(range(5)),
    st.booleans(),
)
def test_memory_formats_equal_torchs(sizes, order, gap):
    order = [dim for dim in order if dim < len(sizes)]
    real = torch.empty([sizes[dim] for dim in order]).permute([order.index(dim) for dim in range(len(sizes))])
    if gap:
        real = real[..., : max(1, real.size(-1) - 1)]
    env = ShapeEnv()
    size = [env.create_size(length, f"x.size({i})", DimPolicy.DUCK) for i, length in enumerate(real.shape)]
    stride = [env.create_size(step, f"x.stride({i})", DimPolicy.DUCK) for i, step in enumerate(real.stride())]
    fake = wrapper(size, stride)
    assert fake.is_contiguous() == real.is_contiguous()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    assert fake.is_contiguous(memory_format=formats[real.dim()]) == real.is_contiguous(
        memory_format=formats[real.dim()]
    )
    node = env.create_size(7, "node", DimPolicy.DYNAMIC).node
    dense = node.is_non_overlapping_and_dense([expr_of(n) for n in size], [expr_of(n) for n in stride])
    assert hint_of(torch.SymBool(dense)) == torch.ops.aten.is_non_overlapping_and_dense(real)
    suggested = {4: node.is_channels_last_strides_2d, 5: node.is_channels_last_strides_3d}[real.dim()]
    suggests = hint_of(torch.SymBool(suggested([expr_of(n) for n in size], [expr_of(n) for n in stride])))
    assert suggests == torch.ops.aten.is_strides_like_format(real, formats[real.dim()])


def test_equal_questions_are_asked_once(monkeypatch):
    env, (a, b) = make(6, 7)
    asked = []
    monkeypatch.setattr(
        env.constraints,
        "decide",
        lambda condition, before=env.constraints.decide: asked.append(condition) or before(condition),
    )
    for _ in range(3):
        assert ((a * b + 1) % a).node is ((a * b + 1) % a).node
        assert (a < b).node.guard_or_false("", 0) and (a * b >= 1).node.statically_known_true()
        assert a.node.wrap_int(3) is a.node.wrap_int(3) and (-a).node is (-a).node
    before = len(asked)
    assert bool(a < b) and (a < b).node.expect_true("", 0) and len(asked) == before
    assert [guard.text for guard in env.guards] == ["x.size(1) >= x.size(0) + 1"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=6, max_size=6))
def test_sums_are_as_sympy_writes_them(factors):
    _, (a, b, c) = make(6, 7, 8)
    first, second = factors[0] * a + factors[1] * b * c + factors[2], factors[3] * a + factors[4] * b * c + factors[5]
    one, two = expr_of(first), expr_of(second)
    assert expr_of(first + second) == one + two and expr_of(first - second) == one - two


def test_what_was_composed_before_is_what_its_parts_became():
    _, (a, b) = make(6, 6)
    total, same = a + b, a == b
    assert str(total) == "s0 + s1" and bool(same)
    assert str(a + b) == str(total) == "2*s0" and a - b == 0
    assert bool(a == 6) and a + b == 12


def test_composed_nodes_are_kept_within_a_bound():
    env, (a,) = make(6)
    for number in range(5000):
        a + number
    assert len(env.nodes) <= 1 << 12 and str(a + 3) == "s0 + 3"
