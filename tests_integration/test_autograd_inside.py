"""Programs with autograd inside, compiled by aotgrad and by inductor."""

from __future__ import annotations

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


@pytest.mark.skipif(
    not hasattr(torch.autograd.Function, "clear_saved_tensors_on_access"),
    reason="before torch 2.13 what was saved stays",
)
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


@pytest.mark.parametrize("data", [torch.ones(1), torch.ones(1).expand(3000)], ids=["shorter", "repeated"])
def test_a_leaf_that_is_given_other_memory_before_the_backward(data: torch.Tensor) -> None:
    """A kernel would read beyond it."""
    compiled = meta.compile(lambda t: (t * t).sum())
    t = torch.ones(3000, requires_grad=True)
    y = compiled(t)
    kept, t.data = t.data, data
    with pytest.raises(RuntimeError, match="its data was set"):
        y.backward(retain_graph=True)
    t.data = kept * 3
    y.backward()
    assert torch.equal(t.grad, kept * 6)
