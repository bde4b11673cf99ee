"""Tensors of classes with a `__torch_dispatch__`: what the class makes of operations is in the graph, and what it does besides is done."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from dispatching import ASKED, Defaulting, Eighths, Holding, Overridden, Pair, Sized
from torch.utils._python_dispatch import TorchDispatchMode

import capture


def described(value: Any) -> Any:
    """What can be compared of a value: of tensors of such classes their class, metadata and parts."""
    if isinstance(value, list | tuple):
        return [type(value), *map(described, value)]
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    facts = [type(value), tuple(value.shape), value.stride(), value.dtype, value.requires_grad, value.is_inference()]
    held = (
        {name: described(each) for name, each in value.__dict__.items() if name[0] != "_"}
        if hasattr(value, "__dict__")
        else {}
    )
    return [*facts, held, None if hasattr(value, "__tensor_flatten__") else value.tolist()]


def outcome(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> Any:
    """What a call gives, what it leaves of its arguments, and what the classes were asked."""
    ASKED.clear()
    args = make()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = described(fn(*args))
    return found, described(args), list(ASKED)


def check(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], graphs: int | None = 1, breaks: int = 0) -> Any:
    """A compiled program does in three calls what the plain one does, in so many graphs."""
    compiled = capture.compile(fn)
    for _ in range(3):
        assert outcome(compiled, make) == outcome(fn, make)
    report = compiled.session.report
    assert report.break_count == breaks, str(report)
    assert graphs is None or report.graph_count == graphs, str(report)
    return report


def pair(*sizes: int, cls: Any = Pair) -> Any:
    return cls(torch.arange(1.0, 1 + torch.Size(sizes).numel()).view(sizes), torch.ones(sizes))


def elementwise(x):
    return (x.sin() + 1).relu() * 2


def with_plain(x):
    y = torch.arange(3.0)
    return y * x, x + y.cos(), (y * 2).sum()


def products(x):
    return F.linear(x, x, x[0]), x @ x.t(), torch.einsum("ij,kj->ik", x, x) * 1, F.softmax(x, -1), torch.cat([x, x * 2])


def views_within(x):
    first, second = x.reshape(-1).split(4)[:2]
    return x.view(3, 3).t()[1:].sum() + x.narrow(0, 1, 2).squeeze().mean(), (first * second).unsqueeze(0) * 1


def by_name(x):
    return x.sum(dim=0, keepdim=True), torch.add(x, x, alpha=2), x.to(torch.float64), torch.zeros_like(x), x.clone()


def told(x):
    return (
        x.shape,
        x.dtype,
        x.dim(),
        x.numel(),
        isinstance(x, Pair),
        type(x),
        x.a.shape,
        len(x),
        x.is_contiguous(),
        x.a * 1,
    )


def written_here(x):
    y = x * 2
    y.add_(1)
    return y.sum(), y * 1


def attributes_set(x):
    x.a = x.a * 2
    x.tag = "seen"
    return x + 1


def goes_over_a_loop(x):
    for i in range(4):
        x = x * 2 + i
    return x


@pytest.mark.parametrize(
    "fn",
    [elementwise, with_plain, products, views_within, by_name, told, written_here, attributes_set, goes_over_a_loop],
)
def test_operations_are_what_the_class_makes_of_them(fn):
    sizes = (3,) if fn is with_plain else (3, 3)
    check(fn, lambda: (pair(*sizes),))


@pytest.mark.parametrize("fn", [elementwise, products, goes_over_a_loop])
def test_torchs_own_function_comes_before(fn):
    check(fn, lambda: (pair(3, 3, cls=Defaulting),))


def makes_and_hands_out(x, y):
    made = Pair(x + 1, y * 2)
    product = made * 3 + made.shape[0]
    return product.a + product.b, product, {"made": made, "again": product}


def test_one_is_made_and_handed_out():
    check(makes_and_hands_out, lambda: (torch.ones(3), torch.arange(3.0)))


def test_one_of_sizes_that_vary_is_made():
    def fn(x):
        made = Pair(x, x + 1)
        return (made * made.shape[0]).view(-1) + made.size(0)

    compiled = capture.compile(fn)
    for size in (3, 4, 5, 6):
        args = torch.arange(float(size))
        assert described(compiled(args)) == described(fn(args))
    assert compiled.session.report.graph_count == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2 + x.shape[0],
        lambda x: (x.view(-1) * 2).sum() + x.numel(),
        lambda x: torch.cat([x, x]).flatten() * len(x),
        lambda x: x @ x.t() + x[: x.shape[0] // 2].sum(),
        lambda x: Pair(x.a * 2, x.b).reshape(x.shape[1], -1) + 1,
        lambda x: x.add_(1).mul_(x.size(0)).sum(),
    ],
)
@pytest.mark.parametrize("cls", [Pair, Defaulting])
def test_sizes_that_vary_are_symbols(fn, cls):
    compiled = capture.compile(fn, fullgraph=True)
    for size in (2, 3, 4, 5, 6):
        assert described(compiled(pair(size, 3, cls=cls))) == described(fn(pair(size, 3, cls=cls)))
    assert compiled.session.report.graph_count == 2


def test_sizes_that_are_no_symbols_where_something_takes_none():
    def fn(x):
        return x[1:].sum(), x.sum(0)[x.shape[0] - 2] * 1

    compiled = capture.compile(fn, fullgraph=True)
    for size in (2, 3, 4):
        assert described(compiled(pair(size, 4))) == described(fn(pair(size, 4)))
    assert compiled.session.report.graph_count == 3


@pytest.mark.parametrize("cls", [Pair, Defaulting])
def test_a_number_that_varies_is_an_input(cls):
    def fn(x, k):
        return x * k + 1, (x + k).sum()

    compiled = capture.compile(fn)
    for k in (1.5, 2.5, 3.25, 4.0, 0.1):
        assert described(compiled(pair(3, cls=cls), k)) == described(fn(pair(3, cls=cls), k))
    assert compiled.session.report.graph_count == 2


def test_a_conversion_to_what_it_is_already_gives_the_same():
    def fn(x):
        same = [x.float(), x.to("cpu"), x.contiguous(), x.reshape(x.shape), x.expand_as(x)]
        return [each is x for each in same], x.double(), x.float() * 2

    check(fn, lambda: (pair(3, 3),))
    check(fn, lambda: (Pair(*2 * [torch.ones(3, 3, dtype=torch.float64).t()]),))


def test_a_class_asks_what_an_operator_is():
    class Asking(Pair):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs):
            schema = func._schema
            writes = [each.alias_info.is_write for each in schema.arguments if each.alias_info is not None]
            named = (
                schema.name,
                str(schema),
                schema.arguments[-1].default_value,
                schema.arguments[0].has_default_value(),
            )
            sort = isinstance(schema.arguments[0].type, torch.TensorType), str(schema.returns[0].type)
            packet = func.overloadpacket, func.overloadpacket.__name__, func.name(), func.namespace, len(func.tags)
            ASKED.append((str((schema.is_mutable, writes, *named, *sort, *packet[1:])), []))
            if packet[0] in (torch.ops.aten.sin, torch.ops.aten.cos):
                return cls(args[0].b, args[0].a)
            return super().__torch_dispatch__(func, types, args, kwargs)

    def fn(x):
        return x.sin() + 1, x.mul_(2) - x

    check(fn, lambda: (pair(3, cls=Asking),))


def test_one_that_is_handed_through_stays_itself():
    compiled = capture.compile(lambda x: (x, [x], x * 1))
    given = pair(3)
    first, (second,), third = compiled(given)
    assert first is second is given
    assert type(third) is Pair


def test_attributes_hold_what_the_class_says():
    class Counting(Pair):
        count = 0

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs):
            Counting.count += 1
            return super().__torch_dispatch__(func, types, args, kwargs).a * Counting.count

    def fn(x):
        return x * 2, x.sin() + Counting.count

    compiled = capture.compile(fn)
    found = [described(compiled(pair(3, cls=Counting))) for _ in range(3)]
    assert Counting.count == 6
    Counting.count = 0
    assert found == [described(fn(pair(3, cls=Counting))) for _ in range(3)]


def test_a_class_raises():
    class Refusing(Pair):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs):
            if func is torch.ops.aten.mul.Tensor:
                raise ValueError("no products")
            return super().__torch_dispatch__(func, types, args, kwargs)

    def fn(x):
        try:
            return x * 2
        except ValueError as error:
            return x + 1, str(error)

    check(fn, lambda: (pair(3, cls=Refusing),))


def test_classes_are_asked_in_torchs_order():
    class Deferring(Pair):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs):
            if func is torch.ops.aten.add.Tensor:
                return NotImplemented
            return super().__torch_dispatch__(func, types, args, kwargs)

    def fn(x, y):
        return x * y, y * x, x.cumsum(0) * y

    check(fn, lambda: (pair(3), pair(3, cls=Deferring)))


def test_another_dispatch_in_the_class_is_noticed():
    class Changing(Pair):
        pass

    compiled = capture.compile(lambda x: x * 2)
    given = pair(3, cls=Changing)
    compiled(given)
    Changing.__torch_dispatch__ = classmethod(lambda cls, func, types, args, kwargs: args[0].b * 7)  # type: ignore[assignment]
    assert compiled(given).tolist() == [7.0] * 3


def quantised(cls: type) -> torch.nn.Sequential:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    model[0].weight = torch.nn.Parameter(cls.of(model[0].weight.detach()), requires_grad=False)
    return model


@pytest.mark.parametrize("cls", [Eighths, Overridden])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_quantised_weight_is_whole(cls, mode):
    model = quantised(cls)
    compiled = capture.compile(model, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        with mode():
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    model[0].weight.whole.zero_()
    torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    model[0].weight = torch.nn.Parameter(cls.of(torch.ones(6, 8)), requires_grad=False)
    torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    assert compiled.session.report.graph_count <= 2


@pytest.mark.parametrize("sizes", [(4, 8), (2, 3, 8)])
@pytest.mark.parametrize("cls", [Eighths, Overridden])
def test_training_around_a_quantised_weight(cls, sizes):
    model, x = quantised(cls), torch.randn(sizes, requires_grad=True)
    compiled = capture.compile(model, fullgraph=True)
    gradients = [torch.autograd.grad(fn(x).sin().sum(), [x, *model[2].parameters()]) for fn in (model, compiled)]
    torch.testing.assert_close(*gradients)


def test_a_function_of_autograd_takes_one():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.weight = weight
            return x @ weight.dequantize().t()

        @staticmethod
        def backward(ctx, gradient):
            return gradient @ ctx.weight.dequantize(), None

    weight, x = Eighths.of(torch.randn(6, 8)), torch.randn(4, 8, requires_grad=True)

    def fn(x):
        return Product.apply(x * 2, weight).sin().sum()

    compiled = capture.compile(fn, fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad(fn(x), x))


def test_what_autograd_differentiates_breaks_the_graph():
    weight = torch.nn.Parameter(pair(3))
    assert isinstance(weight, Pair)

    def fn(x):
        y = x.cos()
        return (weight * y).sum()

    x = torch.arange(3.0)
    found = []
    compiled = capture.compile(fn)
    for each in (fn, compiled):
        each(x).backward()
        found.append(described(weight.grad))
        weight.grad = None
    assert found[0] == found[1]
    assert any("of which autograd computes the gradients" in each.reason for each in compiled.session.report.breaks)


def test_what_a_class_computes_with_what_learns_is_followed_by_no_autograd():
    def fn(x, weight):
        return (x * Pair(weight.detach(), weight * 2)).b

    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    compiled = capture.compile(fn)
    assert not fn(x, weight).requires_grad
    assert not compiled(x, weight).requires_grad


def views_handed_out(x):
    return x.sin().view(9), x.t()


def test_a_view_that_is_handed_out_is_one():
    compiled = capture.compile(views_handed_out)
    assert [each._is_view() for each in compiled(pair(3, 3))] == [True, True]
    check(views_handed_out, lambda: (pair(3, 3),), graphs=None, breaks=2)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_writes_are_counted_as_autograd_counts_them(mode):
    def fn(x, y):
        x.add_(1)
        x.mul_(y)
        made = y * 2
        made.mul_(x).copy_(y)
        return x, made

    compiled = capture.compile(fn, fullgraph=True)
    for _ in range(2):
        found = []
        for each in (fn, compiled):
            given = pair(3), pair(3)
            before = given[0]._version
            with mode():
                first, second = each(*given)
            assert first is given[0]
            count = None if second.is_inference() else second._version
            found.append((described([*given, second]), first._version - before, count))
        assert found[0] == found[1]


def test_writes_to_a_view_count_as_writes_to_its_base():
    def fn(x):
        x[0].add_(1)
        x.view(-1)[1:].mul_(2)
        x.detach().t().sub_(1)
        first, _ = x.split(2)
        first.neg_()

    given = []
    for each in (fn, capture.compile(fn, fullgraph=True)):
        x = pair(3, 3)
        product = torch.nn.Parameter(pair(3, 3)) * x
        each(x)
        given.append((x._version, described(x)))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward(pair(3, 3))
    assert given[0] == given[1]


def test_what_was_saved_for_a_backward_is_not_used_once_it_was_written_to():
    def fn(x):
        x.add_(1)

    for each in (fn, capture.compile(fn, fullgraph=True)):
        weight, given = torch.nn.Parameter(pair(3)), pair(3)
        product = weight * given
        each(given)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward(pair(3))


def test_one_made_in_inference_mode_is_of_it():
    def fn(x):
        with torch.inference_mode():
            made = Pair(x * 2, x) * 3
        return made

    x = torch.ones(3)
    assert fn(x).is_inference()
    assert capture.compile(fn)(x).is_inference()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2 + 1,
        lambda x: x.as_subclass(torch.Tensor) * 2,
        lambda x: torch.Tensor._make_subclass(torch.Tensor, x) * 2,
        lambda x: x.detach() * 2,
        lambda x: x.data_ptr() != 0,
    ],
)
def test_one_that_has_memory(fn):
    compiled = capture.compile(fn)

    def told(each):
        try:
            return outcome(each, lambda: (Holding(torch.arange(3.0)),))[0], list(ASKED)
        except Exception as error:
            return type(error), list(ASKED)

    # In a thread of its own: where `as_subclass` raises, torch itself leaves one with other keys than it had.
    with ThreadPoolExecutor(1) as thread:
        for _ in range(2):
            assert thread.submit(told, compiled).result() == thread.submit(told, fn).result()


def test_there_is_no_array_over_one():
    def fn(x):
        try:
            return x.numpy()
        except RuntimeError:
            return x + 1

    check(fn, lambda: (pair(3),), graphs=None, breaks=1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cond(x.a.sum() > 0, lambda a: a * x.b, lambda a: a + x.b, (x.a,)),
        lambda x: torch.utils.checkpoint.checkpoint(lambda a: (a * x).sin(), x.a, use_reentrant=False),
        lambda x: torch.func.grad(lambda a: (a * x.a).sum())(x.b),
        lambda x: torch.func.vmap(lambda a: a * x.a)(x.b),
        lambda x: copy.deepcopy(x),
        lambda x: [each.sum() for each in x],
        lambda x: (x > 2).any() and x.sum().item(),
        lambda x: torch.add(x.a, x.a, out=x.b),
        lambda x: repr(x),
    ],
)
def test_wherever_they_come(fn):
    compiled = capture.compile(fn)
    for _ in range(2):
        assert outcome(compiled, lambda: (pair(3, 3),)) == outcome(fn, lambda: (pair(3, 3),))


def test_one_that_says_its_own_sizes_breaks_the_graph():
    report = check(lambda x: x.cos(), lambda: (Sized(torch.ones(3), torch.ones(3)),), graphs=None, breaks=1)
    assert "which says itself what its sizes" in report.breaks[0].reason


class Listening(TorchDispatchMode):
    """Takes notes of what it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_that_is_entered_within_sees_what_runs():
    def fn(x):
        y = x.cos()
        with Listening() as mode:
            z = (y + 1).sin()
        return z * 2, mode.seen

    report = check(fn, lambda: (torch.arange(3.0),), graphs=2, breaks=1)
    assert report.breaks[0].reason == "a dispatch mode is entered"
