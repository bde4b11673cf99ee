"""Symbolic strides through the whole stack: parts of larger tensors, whose strides no size tells."""

import pytest
import torch

import capture
import meta

PROGRAMS = {
    "columns": (lambda x: x * 2 + 1, lambda a, b: torch.randn(a, b + 3)[:, :b]),
    "every other": (lambda x: (x * 2).sum(1), lambda a, b: torch.randn(a, 2 * b + 1)[:, ::2]),
    "products": (lambda x: (x @ x.t(), torch.cat([x, x])), lambda a, b: torch.randn(a, b + 3)[:, :b]),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_change(name, train, monkeypatch):
    monkeypatch.setattr(capture.config, "on_error", "raise")
    program, made = PROGRAMS[name]
    compiles = []

    def backend(graph_module, inputs):
        compiles.append(1)
        return meta.backends.inductor(graph_module, inputs)

    compiled = meta.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for a, b in ((4, 9), (6, 10), (16, 33)):
        x = made(a, b)
        mine, eagers = (x.detach().requires_grad_(train) for _ in range(2))
        results = [torch.utils._pytree.tree_leaves(f(t)) for f, t in ((compiled, mine), (program, eagers))]
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()
        if train:
            for leaves in results:
                sum(t.sum() for t in leaves).backward()
            torch.testing.assert_close(mine.grad, eagers.grad)
    assert len(compiles) == 1
