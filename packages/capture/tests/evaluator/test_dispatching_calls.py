"""What torch makes of a call before it asks a class with a `__torch_dispatch__`: tensors of numbers, casts of autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dispatching import Defaulting, Eighths, Pair

import capture

#: What classes here were asked, and what they found in force.
ASKED: list[Any] = []


class Telling(Pair):
    """Tells what is in force as it is asked."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        plain = torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        ASKED.append((str(func), str(plain.dtype), torch.is_autocast_enabled("cpu")))
        return super().__torch_dispatch__(func, types, args, kwargs)


def pair(cls: Any, size: int, dtype: torch.dtype = torch.float32) -> Any:
    whole = torch.arange(float(size * size)).view(size, size)
    return cls(whole.to(dtype), torch.ones(size, size, dtype=dtype))


def described(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    if isinstance(value, Defaulting):
        return [type(value), value.dtype, tuple(value.shape), described(value.a), described(value.b)]
    return [type(value), value.dtype, value.tolist()] if isinstance(value, torch.Tensor) else value


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    ASKED.clear()
    return described(fn(*args)), described(args), list(ASKED)


def set_row(x):
    x[0] = 1.0
    return x * 2


def set_bool(x):
    x[0, 1] = True
    x[...] = 2
    return x


def set_where(x):
    x[x > 2] = 0
    return x


def set_no_number(x):
    x[0] = float("nan")
    x[1] = float("-inf")
    x[2] = -0.0
    return x


def picked(x):
    return x[[0, 2]] + 1, x[[2, 0], [0, 1]]


def set_picked(x):
    x[[0, 1]] = 5
    return x


def chosen(x):
    return torch.where(x > 2, x, 0.0), torch.where(x > 2, 1, 2)


def set_rounded(x):
    x[0] = 1.7
    return x


@pytest.mark.parametrize("cls", [Pair, Defaulting])
@pytest.mark.parametrize("fn", [set_row, set_bool, set_where, picked, set_picked, chosen, set_rounded])
def test_tensors_that_torch_makes_of_numbers(fn: Callable[..., Any], cls: Any) -> None:
    compiled = capture.compile(fn, fullgraph=True)
    for size, dtype in ((3, torch.float32), (3, torch.float32), (4, torch.float32), (3, torch.int64)):
        assert outcome(compiled, (pair(cls, size, dtype),)) == outcome(fn, (pair(cls, size, dtype),))


def test_numbers_that_are_none() -> None:
    compiled = capture.compile(set_no_number, fullgraph=True)
    for _ in range(2):
        assert str(described(compiled(pair(Pair, 3)))) == str(described(set_no_number(pair(Pair, 3))))


def test_a_number_that_varies_is_set() -> None:
    def fn(x, k):
        x[0] = k
        return x * k

    compiled = capture.compile(fn, fullgraph=True)
    for k in (1.0, 2.0, 3.5, True, 2, 7):
        assert outcome(compiled, (pair(Pair, 3), k)) == outcome(fn, (pair(Pair, 3), k))


def test_what_is_promoted_as_a_number_is_no_tensor_of_the_graph() -> None:
    def fn(x):
        return torch.where(x > 2, 1.5, x), torch.where(x > 2, x, 0.5), torch.where(x > 2, 1.0, 2)

    compiled = capture.compile(fn)
    for dtype in (torch.int64, torch.float32, torch.float16):
        assert outcome(compiled, (pair(Pair, 3, dtype),)) == outcome(fn, (pair(Pair, 3, dtype),))


def autocast(enabled: bool = True) -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)


def products(x):
    with autocast():
        return x @ x, x + 1, F.softmax(x, -1), torch.cat([x @ x, x])


def beside_plain(x):
    with autocast():
        y, plain = x @ x, torch.ones(x.shape) @ torch.ones(x.shape)
    return y.a.dtype, y + 1, plain, x @ x


def composed(x):
    with autocast():
        return torch.einsum("ij,jk->ik", x, x) * 1, F.linear(torch.ones(x.shape), x), F.layer_norm(x, (x.shape[-1],))


def switched_off(x):
    with autocast():
        with autocast(enabled=False):
            y = x.float() @ x.float()
        return y, x @ y


def writes(x):
    with autocast():
        x.mul_(2)
        y = x @ x
        x[0] = 1.0
        return y, x


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("cls", [Pair, Defaulting, Telling])
@pytest.mark.parametrize("fn", [products, beside_plain, composed, switched_off, writes])
def test_autocast_casts_before_the_class_is_asked(fn: Callable[..., Any], cls: Any, mode: Any) -> None:
    compiled = capture.compile(fn, fullgraph=True)
    with mode():
        for size, dtype in ((3, torch.float32), (3, torch.float32), (4, torch.float32), (3, torch.bfloat16)):
            assert outcome(compiled, (pair(cls, size, dtype),)) == outcome(fn, (pair(cls, size, dtype),))


def test_autocast_around_a_captured_function() -> None:
    def fn(x):
        return x @ x, x + 1, torch.ones(3, 3) @ torch.ones(3, 3)

    compiled = capture.compile(fn, fullgraph=True)
    for on in (True, False, True):
        with autocast(on):
            assert outcome(compiled, (pair(Telling, 3),)) == outcome(fn, (pair(Telling, 3),))


def test_a_weight_in_eighths_under_autocast() -> None:
    def fn(x, weight):
        with autocast():
            return F.linear(x, weight).relu() @ torch.ones(4, 4)

    compiled = capture.compile(fn, fullgraph=True)
    for scale in (1.0, 3.0):
        x, weight = torch.ones(2, 3) * scale, Eighths.of(torch.arange(1.0, 13).view(4, 3) * scale)
        assert torch.equal(compiled(x, weight), fn(x, weight))


def test_a_leaf_whose_cast_autocast_keeps() -> None:
    def fn(x, weight):
        with autocast():
            return F.linear(x, weight), weight @ weight

    compiled = capture.compile(fn)
    with torch.no_grad():
        for _ in range(2):
            weight = torch.nn.Parameter(torch.ones(3, 3))
            assert outcome(compiled, (pair(Pair, 3), weight)) == outcome(fn, (pair(Pair, 3), weight))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_whether_one_takes_the_data_of_another_is_asked_where_torch_asks(mode: Any) -> None:
    def fn(x):
        return torch._has_compatible_shallow_copy_type(x, x), x.fill_diagonal_(7)

    compiled = capture.compile(fn)
    with mode():
        for size in (3, 3, 4):
            assert outcome(compiled, (pair(Telling, size),)) == outcome(fn, (pair(Telling, size),))


def sets_data(x):
    x.data = torch.ones(x.shape)
    return x.shape


def sets_grad(x):
    x.grad = x.clone()
    return x.grad.shape


def requires(x):
    x.requires_grad_()
    return x.requires_grad


@pytest.mark.parametrize("fn", [sets_data, sets_grad, requires])
def test_what_autograd_knows_of_one_is_set_outside_of_graphs(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for _ in range(2):
        one, other = pair(Pair, 3), pair(Pair, 3)
        assert compiled(one) == fn(other)
        assert (one.grad is None, one.requires_grad) == (other.grad is None, other.requires_grad)


class Comparing(Telling):
    """Says itself what is equal, and compares no elements."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        if func in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default):
            ASKED.append(str(func))
            return args[0].shape[0] == 3
        if func in (torch.ops.aten.eq.Tensor, torch.ops.aten.isclose.default):
            raise NotImplementedError(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("cls", [Pair, Defaulting, Telling, Comparing])
def test_whether_two_are_equal_is_asked_of_the_class(cls: Any, mode: Any) -> None:
    def fn(x, y):
        return torch.equal(x, y), torch.allclose(x, y, atol=0.5), x.allclose(y), x.equal(y)

    compiled = capture.compile(fn, fullgraph=True)
    with mode():
        for size, away in ((3, 0.0), (3, 1.0), (3, 0.25), (4, 0.0), (4, 1.0)):
            args = [(pair(cls, size), cls(pair(cls, size).a + away, pair(cls, size).b)) for _ in "ab"]
            assert outcome(compiled, args[0]) == outcome(fn, args[1])


@pytest.mark.parametrize("cls", [Pair, Comparing])
def test_the_program_goes_by_whether_two_are_equal(cls: Any) -> None:
    def fn(x, y):
        return x * 2 if torch.equal(x, y) else y - x

    compiled = capture.compile(fn)
    for size, away in ((3, 0.0), (3, 1.0), (4, 0.0)):
        args = [(pair(cls, size), cls(pair(cls, size).a + away, pair(cls, size).b)) for _ in "ab"]
        assert outcome(compiled, args[0]) == outcome(fn, args[1])


@pytest.mark.parametrize(
    "fn", [lambda x: x[:, :2] * 1, lambda x: x[:, 1] * 1, lambda x: x[:] * 1, lambda x: x[0:3, 1:] * 1]
)
def test_which_operators_slices_come_to_is_asked_of_sizes_as_they_are(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for size in (3, 4, 5, 2):
        assert outcome(compiled, (pair(Telling, size),)) == outcome(fn, (pair(Telling, size),))
