"""Programs with autograd inside, compiled by aotgrad and by inductor."""

from __future__ import annotations

from collections.abc import Callable

import autograd_custom  # noqa: F401  (registers its programs)
import autograd_inside
import autograd_parameters  # noqa: F401
import autograd_recipes  # noqa: F401
import pytest
import torch

import meta

SETTINGS = {"by": 2.0}


class Scaled(torch.autograd.Function):
    """Its backward looks at settings from outside, as transformers' Yoso does."""

    @staticmethod
    def forward(ctx, x, y, settings):
        ctx.save_for_backward(x, y)
        ctx.settings = settings
        return x * y * settings["by"]

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.settings["by"], g * x * ctx.settings["by"], None


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_that_looks_at_what_may_change(backend: str) -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = Scaled.apply(x.sin(), y.t(), SETTINGS)
        return Scaled.apply(z, z.exp(), SETTINGS) + y

    compiled = meta.compile(run, backend=backend, fullgraph=True)
    for by in (2.0, 5.0, 2.0):
        found = []
        for each in (run, compiled):
            SETTINGS["by"] = 2.0
            inputs = [torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_() for _ in range(2)]
            result = each(*inputs)
            SETTINGS["by"] = by
            found.append([result.detach(), *torch.autograd.grad(result.square().sum(), inputs)])
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", autograd_inside.PROGRAMS)
def test_program_ahead_of_time(name: str) -> None:
    fullgraph = name not in autograd_inside.BREAKS
    autograd_inside.check(name, lambda fn: meta.compile(fn, backend="aot_eager", fullgraph=fullgraph))


@pytest.mark.parametrize(
    "name", ["loss_and_its_value", "second_derivatives", "step_replaces_data", "kept_graph_leaves", "several"]
)
def test_program_in_kernels(name: str) -> None:
    autograd_inside.check(name, lambda fn: meta.compile(fn, fullgraph=True))


def _viewed(t):
    v = t.view(3, 1)
    t.data = torch.full((3,), 5.0)
    return (v * v).sum()


def _of_another_size(t):
    y = (t * t).sum()
    t.data = torch.full((1,), 5.0)
    return y


@pytest.mark.parametrize("program", [_viewed, _of_another_size])
def test_a_leaf_that_is_given_other_data_after_it_was_computed_with(program):
    gradients = []
    for fn in (program, meta.compile(program)):
        t = torch.ones(3, requires_grad=True)
        fn(t).backward()
        gradients.append(t.grad)
    assert torch.equal(*gradients)


class _Clears(torch.autograd.Function):
    """Lets go of what was saved once it is read (from torch 2.13 on)."""

    clear_saved_tensors_on_access = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class _ClearsOneOfTwo(_Clears):
    @staticmethod
    def forward(ctx, x, y):
        return _Clears.forward(ctx, x) * y

    @staticmethod
    def backward(ctx, g):
        return _Clears.backward(ctx, g), None


CLEARS = pytest.mark.skipif(
    not hasattr(torch.autograd.Function, "clear_saved_tensors_on_access"),
    reason="before torch 2.13 what was saved stays",
)


@CLEARS
def test_a_backward_that_runs_once_may_have_no_gradient_of_an_input():
    compiled = meta.compile(_ClearsOneOfTwo.apply, fullgraph=True)
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    z = compiled(x, y).sum()
    z.backward(retain_graph=True)
    assert torch.equal(x.grad, 2 * x)
    assert y.grad is None
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        z.backward()


@CLEARS
def test_a_backward_that_lets_go_of_what_was_saved_runs_once():
    def program(x, y):
        return _Clears.apply(x * 2).sum() + (y * y).sum()

    for fn in (program, meta.compile(program, fullgraph=True)):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        z = fn(x, y)
        for _ in range(2):  # which does not come to it
            (g,) = torch.autograd.grad(z, [y], retain_graph=True)
            assert torch.equal(g, 2 * y)
        (g,) = torch.autograd.grad(z, [x], retain_graph=True)
        assert torch.equal(g, 8 * x)
        for again in (lambda z: z.backward(retain_graph=True), lambda z, x=x: torch.autograd.grad(z, [x])):
            with pytest.raises(RuntimeError, match="can only be accessed once"):
                again(z)


def test_a_leaf_that_is_given_less_memory_before_the_backward() -> None:
    """A kernel would read beyond it."""
    compiled = meta.compile(lambda t: (t * t).sum())
    t = torch.ones(3000, requires_grad=True)
    y = compiled(t)
    kept, t.data = t.data, torch.ones(1)
    with pytest.raises(RuntimeError, match="its data was set"):
        y.backward(retain_graph=True)
    t.data = kept * 3
    y.backward()
    assert torch.equal(t.grad, kept * 6)


@pytest.mark.parametrize("varying", [False, True])
def test_a_tensor_that_lies_otherwise_before_the_backward(varying: bool) -> None:
    """The same sizes in another order of memory: eager computes with it, a kernel gets it as it was."""

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ((a * b).sin() * b).sum()

    def gradients(function: Callable[..., torch.Tensor], data: torch.Tensor) -> torch.Tensor:
        for rows in range(3, 9) if varying else (8,):
            torch.manual_seed(0)
            a, b = torch.randn(rows, 4, requires_grad=True), torch.randn(rows, 4, requires_grad=True)
            result = function(a, b)
        b.data = data
        result.backward()
        assert a.grad is not None
        return a.grad

    compiled = meta.compile(program)
    for data in (torch.randn(4, 8).t(), torch.randn(8, 9)[:, 3:7], torch.randn(8, 1).expand(8, 4)):
        torch.testing.assert_close(gradients(compiled, data), gradients(program, data))
    for unlike in (torch.randn(1), torch.randn(8, 4).half()):
        with pytest.raises(RuntimeError, match="its data was set"):
            gradients(compiled, unlike)


def test_a_written_view_is_refused_as_in_eager() -> None:
    compiled = meta.compile(lambda a, b: (a * b).sin().sum())
    a, b = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
    result = compiled(a, b)
    b.t_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
