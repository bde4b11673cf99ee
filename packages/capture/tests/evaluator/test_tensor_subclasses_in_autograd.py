"""Tensors of the program's classes in autograd: gradients, leaves, copies, steps of training."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from overriding import (
    MorePlain,
    Parameter,
    Plain,
    alike,
    check,
    count,
    noting,
    plain,
)

import capture


def made_inside(x):
    y = x.as_subclass(Plain) * 2
    return (y * y).sum()


@pytest.mark.parametrize(
    ("fn", "make"),
    [
        (made_inside, lambda: count(3).requires_grad_()),
        (lambda p: (p * p).sum(), lambda: Parameter(count(3))),
        (lambda p: (p * p).sum(), lambda: plain(3).requires_grad_()),
        (lambda p: (p * p).sum(), lambda: noting(3).requires_grad_()),
    ],
)
def test_gradients(fn: Callable[..., Any], make: Callable[[], Any]) -> None:
    grads = []
    for call in (fn, capture.compile(fn, fullgraph=True)):
        x = make()
        out = call(x)
        out.backward()
        grads.append((type(out), x.grad))
    assert grads[0][0] is grads[1][0]
    assert alike(grads[0][1], grads[1][1])


def switches_gradients_on(x):
    with torch.enable_grad():
        y, z = (x * 2).as_subclass(torch.Tensor), x * 3
    return y, z, x.requires_grad, (x * 3).requires_grad


@pytest.mark.parametrize("context", [contextlib.nullcontext, torch.no_grad])
@pytest.mark.parametrize("make", [plain, noting])
def test_gradients_go_through_where_the_frame_begins_without_them(
    make: Callable[[int], Any], context: Callable[[], Any]
) -> None:
    def inputs() -> tuple[Any]:
        return (make(3).requires_grad_(),)

    with context():
        check(switches_gradients_on, inputs)
    x = plain(3).requires_grad_()
    with torch.no_grad():
        y, z, *_ = capture.compile(switches_gradients_on, fullgraph=True)(x)
    (y.sum() + z.sum()).backward()
    assert torch.equal(x.grad, torch.full((3,), 5.0))


def test_no_history_where_gradients_are_off() -> None:
    def program(x):
        x.mul_(2)
        return x.as_subclass(MorePlain)

    for make in (lambda: count(3).requires_grad_(), lambda: plain(3).requires_grad_()):
        with torch.no_grad():
            results = [fn(make()) for fn in (program, capture.compile(program))]
        assert alike(*results)
        assert [each.grad_fn for each in results] == [None, None]


@pytest.mark.parametrize("make", [plain, noting, lambda n: plain(n).requires_grad_()])
def test_within_a_function_transform(make: Callable[[int], Any]) -> None:
    check(lambda x: torch.func.grad(lambda t: (t * t).sum())(x), lambda: (make(3),), graphs=None)
    check(lambda x, y: torch.vmap(lambda t: t * x)(y), lambda: (make(3), count(2, 3)), graphs=None)


def test_a_view_is_written_to_in_inference_mode() -> None:
    def program(x):
        x = x.as_subclass(Plain)
        x += 1
        return x

    with torch.inference_mode():
        results = [fn(count(3).requires_grad_()) for fn in (program, capture.compile(program))]
    assert alike(*results)


@pytest.mark.parametrize("given", [plain, lambda n: torch.Tensor._make_subclass(Plain, count(n))])
def test_a_leaf_is_written_to_without_gradients(given: Callable[[int], Any]) -> None:
    def step(x):
        with torch.no_grad():
            x.add_(1)
        return (x * x).sum()

    compiled, gradients = capture.compile(step), []
    for make in (given, plain, given):
        for fn in (step, compiled):
            x = make(3).requires_grad_()
            fn(x).backward()
            gradients.append(x.grad)
    assert all(alike(a, b) for a, b in zip(gradients[::2], gradients[1::2], strict=True))


def test_no_gradients_in_inference_mode() -> None:
    with torch.inference_mode():
        check(lambda x: (x * 2, x.requires_grad), lambda: (plain(3).requires_grad_(),))


@pytest.mark.parametrize("make", [plain, noting, lambda n: Parameter(count(n))])
def test_a_leaf_is_not_written_to(make: Callable[[int], Any]) -> None:
    def write(x, seen):
        seen.append(x.max())
        x[0] = 1
        return x

    def write_plain(x, seen):
        seen.append(1)
        try:
            x.as_subclass(torch.Tensor).add_(1)
        except RuntimeError as error:
            seen.append(str(error))
        return x * 2

    for fn in (write, write_plain):
        check(fn, lambda: (make(3).requires_grad_(), []), graphs=None)


class Asked(torch.Tensor):
    """It counts what it is asked."""

    count = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def place_in_autograd(x: Any) -> Any:
    grad = x.grad
    return x * 2 if x.is_leaf and grad is None else x + (0 if grad is None else grad.sum())


def test_a_place_in_autograd_is_told_without_asking_the_class_again() -> None:
    compiled = capture.compile(place_in_autograd, fullgraph=True)

    def cases() -> Any:
        leaf = torch.ones(3).as_subclass(Asked).detach().requires_grad_()
        yield leaf
        yield torch.ones(3, requires_grad=True).as_subclass(Asked).detach()
        with_gradient = torch.ones(3).as_subclass(Asked).detach().requires_grad_()
        with_gradient.grad = torch.full((3,), 2.0)
        yield with_gradient

    for own, other in zip(cases(), cases(), strict=True):
        before = Asked.count
        expected = place_in_autograd(own)
        asked = Asked.count - before
        for _ in range(2):
            before = Asked.count
            result = compiled(other)
            assert Asked.count - before == asked
            assert type(result) is type(expected)
            assert torch.equal(result, expected)


class Copied(torch.Tensor):
    """It says how it is copied, as the tensors of torchvision do."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self.detach().clone().requires_grad_(self.requires_grad).as_subclass(Copied)


def deep_copies(x: Any) -> Any:
    made = copy.deepcopy({"once": x, "twice": [x]})
    return made["once"] is made["twice"][0], made["once"] * 2, type(made["once"])


def test_a_deep_copy_is_what_the_class_makes_of_it() -> None:
    compiled = capture.compile(deep_copies, fullgraph=True)
    x = torch.arange(3.0).as_subclass(Copied)
    for _ in range(2):
        assert str(compiled(x)) == str(deep_copies(x))


def gradient_of_a_copy(x: torch.Tensor) -> Any:
    y = copy.deepcopy(x)
    (y * y).sum().backward()
    return y.grad, y.is_leaf, y.requires_grad, x.grad


def test_a_copy_of_a_leaf_is_a_leaf() -> None:
    compiled = capture.compile(gradient_of_a_copy, fullgraph=True)
    for start in (torch.ones(3), torch.arange(3.0)):
        x = start.requires_grad_()
        assert str(compiled(x)) == str(gradient_of_a_copy(x))


def test_what_is_no_leaf_is_not_copied() -> None:
    compiled = capture.compile(gradient_of_a_copy)
    for fn in (gradient_of_a_copy, compiled):
        with pytest.raises(RuntimeError, match="created explicitly by the user"):
            fn(torch.ones(3, requires_grad=True) * 2)


def by_backward(loss: torch.Tensor, layer: torch.nn.Module) -> Any:
    return loss.backward()


def by_autograd(loss: torch.Tensor, layer: torch.nn.Module) -> Any:
    return torch.autograd.backward([loss])


def by_grad(loss: torch.Tensor, layer: torch.nn.Module) -> Any:
    return torch.autograd.grad(loss, list(layer.parameters()), materialize_grads=True)


@pytest.mark.parametrize("way", [by_backward, by_autograd, by_grad])
def test_a_step_of_training_by_a_loss_of_the_class(way: Any) -> None:
    def step(layer: torch.nn.Module, x: torch.Tensor) -> Any:
        layer.zero_grad()
        loss = ((layer(x) - 1) ** 2).mean()
        return way(loss, layer), loss.detach()

    outcomes = []
    for fn in (step, capture.compile(step, fullgraph=True)):
        torch.manual_seed(0)
        layer, x = torch.nn.Linear(3, 2), torch.ones(4, 3).as_subclass(Asked)
        for _ in range(2):
            before = Asked.count
            found = str(fn(layer, x))
            gradients = [(type(p.grad), None if p.grad is None else p.grad.tolist()) for p in layer.parameters()]
            outcomes.append((found, Asked.count - before, gradients))
    assert outcomes[:2] == outcomes[2:]


def _given_other_data(t):
    y = (t * t).sum()
    t.data = torch.full((3,), 5.0)
    y.backward()
    return t.grad


def _given_other_data_for_later(t):
    y = (t.sin() * t.view(3)).sum() + (t * t * t).sum()
    t.data = torch.full((3,), 5.0)
    return y


@pytest.mark.parametrize("make", [plain, noting, lambda n: torch.Tensor._make_subclass(Plain, count(n)), count])
def test_a_leaf_given_other_data_before_a_backward_is_what_it_then_holds(make: Callable[[int], Any]) -> None:
    compiled, later = capture.compile(_given_other_data), capture.compile(_given_other_data_for_later)
    for _ in range(2):
        assert alike(*(fn(make(3).requires_grad_()) for fn in (_given_other_data, compiled)))
        leaves = make(3).requires_grad_(), make(3).requires_grad_()
        _given_other_data_for_later(leaves[0]).backward()
        later(leaves[1]).backward()
        assert alike(*(leaf.grad for leaf in leaves))


def _updated_through_data(t):
    (t * t).sum().backward()
    t.data = t.data - 0.5 * t.grad
    return t.detach() * 1


@pytest.mark.parametrize("make", [plain, count])
def test_a_leaf_given_other_data_after_its_backward_stays_in_the_graph(make: Callable[[int], Any]) -> None:
    compiled = capture.compile(_updated_through_data, fullgraph=True)
    assert alike(*(fn(make(3).requires_grad_()) for fn in (_updated_through_data, compiled)))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("make", [plain, noting, count])
def test_hooks_on_what_is_saved_see_tensors_of_the_class(make: Callable[[int], Any], before: bool) -> None:
    def program(x, w):
        y = x * 2
        return (y.sin() * w).sum()

    def run(fn: Callable[..., Any], hooked: bool) -> tuple[list[str], Any, Any]:
        seen: list[str] = []

        def pack(tensor: Any) -> Any:
            seen.append(type(tensor).__name__)
            return tensor

        x, w = make(3).requires_grad_(), count(3).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t) if hooked else contextlib.nullcontext():
            y = fn(x, w)
        y.backward()
        return seen, x.grad, w.grad

    compiled = capture.compile(program)
    for hooked in (before, not before, before):
        (seen, *wanted), (seen_too, *got) = run(program, hooked), run(compiled, hooked)
        assert seen == seen_too
        assert all(map(alike, wanted, got))


@pytest.mark.parametrize("make", [plain, count])
def test_a_checkpoint_of_a_tensor_of_a_class_is_part_of_the_graph(make: Callable[[int], Any]) -> None:
    def program(x, w):
        return torch.utils.checkpoint.checkpoint(lambda a: (a.sin() * w).sum(), x, use_reentrant=False)

    compiled, gradients = capture.compile(program, fullgraph=True), []
    for fn in (program, compiled):
        x, w = make(3).requires_grad_(), count(3).requires_grad_()
        fn(x, w).backward()
        gradients.append((x.grad, w.grad))
    assert all(map(alike, *gradients))


class Times:
    """Has a hook."""

    def __init__(self, by: float) -> None:
        self.by = by

    def hook(self, gradient):
        return gradient * self.by


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.register_hook(Times(5.0).hook)
    taken = y.register_hook(lambda g: g * 7)
    taken.remove()
    (y * y).sum().backward()
    return x.grad


@pytest.mark.parametrize("make", [plain, noting])
def test_hooks_are_part_of_the_graph(make: Callable[[int], Any]) -> None:
    check(hooked, lambda: (make(3).requires_grad_(),))


def made_a_leaf(x):
    y = torch.Tensor._make_subclass(Plain, x.detach(), True)
    (y * x).sum().backward()
    return y.grad, x.grad, y.is_leaf, type(y) is Plain


def test_a_leaf_of_a_class_is_made_in_the_graph() -> None:
    for make in (count, plain):
        check(made_a_leaf, lambda make=make: (make(3).requires_grad_(),))
