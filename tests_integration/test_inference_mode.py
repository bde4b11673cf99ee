"""`torch.inference_mode` within what is compiled: one graph, and what is made within is an inference tensor, as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import capture
import meta

LAYER = torch.nn.Linear(4, 4)


@torch.inference_mode()
def decorated(x: Any) -> Any:
    return LAYER(x).relu()


def within(x: Any) -> Any:
    before = x * 2
    with torch.inference_mode():
        inside = before + LAYER(x)
        told = torch.is_inference_mode_enabled(), torch.is_grad_enabled(), inside.is_inference(), before.is_inference()
    return before, inside, told, torch.is_inference_mode_enabled(), torch.is_grad_enabled(), before.sin()


def called(x: Any) -> Any:
    return decorated(x), decorated(x.detach()), x + decorated(x)


def views_within(x: Any) -> Any:
    y = x.sin()
    with torch.inference_mode():
        z = y * 2
        return y.view(-1), y.detach(), z.view(-1), z[0], z.t(), x.t(), torch.view_as_complex(z.view(3, 2, 2)).conj()


def nested(x: Any) -> Any:
    with torch.inference_mode():
        one = x + 1
        with torch.inference_mode(False):
            two = LAYER(x).sin()
        with torch.no_grad():
            three = two + one
        with torch.enable_grad():
            four = x * 3
    return one, two, three, four, two.requires_grad, four.is_inference()


def left_by_an_exception(x: Any) -> Any:
    try:
        with torch.inference_mode():
            y = x + 1
            raise ValueError(y.shape)
    except ValueError as error:
        return y, str(error), torch.is_grad_enabled(), LAYER(x)


def written_within(x: Any) -> Any:
    total, made = torch.zeros(3, 4), x.detach() * 1
    with torch.inference_mode():
        total += x
        made.mul_(2)
        own = torch.zeros(2)
        own.add_(1)
    return total, made, own


class Holder:
    kept: Any = None


def kept_within(x: Any) -> Any:
    mode, holder = torch.inference_mode(), Holder()
    with mode:
        holder.kept = [x.exp()]
    with mode:
        holder.kept.append(holder.kept[0] * 2)
    return holder.kept, mode.mode


PROGRAMS = (decorated, within, called, views_within, nested, left_by_an_exception, written_within, kept_within)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_one_graph(program: Callable[[Any], Any], backend: str) -> None:
    compiled = meta.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    for given in (x, x.clone().requires_grad_(), x):
        mine, eagers = tree_leaves(compiled(given)), tree_leaves(program(given))
        assert not torch.is_inference_mode_enabled()
        for one, other in zip(mine, eagers, strict=True):
            if not isinstance(other, torch.Tensor):
                assert one == other
                continue
            torch.testing.assert_close(one, other)
            assert (one.is_inference(), one.requires_grad) == (other.is_inference(), other.requires_grad)
            if other.requires_grad:
                wanted = (LAYER.weight, given) if given.requires_grad else (LAYER.weight,)
                ours, theirs = (
                    torch.autograd.grad(t.square().sum(), wanted, retain_graph=True, allow_unused=True)
                    for t in (one, other)
                )
                torch.testing.assert_close(ours, theirs)


def breaking(x: Any) -> Any:
    y = x + 1
    with torch.inference_mode():
        z = y * 2
        if z.sum() > 0:
            z = z + 1
    return z, y * 3


def saving(x: Any) -> Any:
    with torch.inference_mode():
        z = x * 2
    try:
        return (z * x).sum()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("program", [breaking, saving], ids=lambda p: p.__name__)
def test_what_breaks_the_graph_within(program: Callable[[Any], Any]) -> None:
    compiled = meta.compile(program, backend="inductor")
    for x in (torch.ones(3), -3 * torch.ones(3), torch.ones(3).requires_grad_(), torch.ones(3)):
        mine, eagers = tree_leaves(compiled(x)), tree_leaves(program(x))
        for one, other in zip(mine, eagers, strict=True):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other)
                assert (one.is_inference(), one.requires_grad) == (other.is_inference(), other.requires_grad)
            else:
                assert one == other
        assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    assert capture.report(compiled).break_count
