"""Where a frame is broken if it acts on a tensor's own place in autograd's graph."""

from __future__ import annotations

import pytest
import torch

import capture


def ask_by_hook(y: torch.Tensor, z: torch.Tensor) -> object:
    return y.register_hook(lambda g: g)


def ask_by_keeping(y: torch.Tensor, z: torch.Tensor) -> object:
    return y.retain_grad()


def ask_by_backward(y: torch.Tensor, z: torch.Tensor) -> object:
    return z.backward(inputs=[y])


@pytest.mark.parametrize("ask", [ask_by_hook, ask_by_keeping, ask_by_backward])
def test_no_graph_gives_out_a_tensor_asked_about_and_what_depends_on_it(ask):
    def program(x):
        y = x.sin()
        size = y.detach() * 2
        z = y.exp().sum() * 3
        ask(y, z)
        return z + size.sum(), y

    found = capture.explain(program, torch.ones(3, requires_grad=True))
    with_sine = [g for g in found.graphs if any(n.target == "sin" for n in g.module.graph.nodes)]
    (first,) = with_sine
    names = {n.target for n in first.module.graph.nodes}
    assert "detach" in names and "exp" not in names


def test_where_nothing_depends_on_it_nothing_is_broken_earlier():
    def program(x):
        y = x.sin()
        z = y.detach().exp()
        y.register_hook(lambda g: g)
        return y.sum() + z.sum()

    found = capture.explain(program, torch.ones(3, requires_grad=True))
    assert {"sin", "exp"} <= {n.target for n in found.graphs[0].module.graph.nodes}
