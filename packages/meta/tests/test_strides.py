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


OF_LENGTH_1 = {
    "sum": lambda x: x.sum((0, 1), keepdim=True),
    "largest": lambda x: x.max(0, keepdim=True),
    "whether any": lambda x: (x > 0).any(2, keepdim=True),
    "deviation and mean": lambda x: torch.std_mean(x, (0, 1), correction=0, keepdim=True),
    "norm": lambda x: x.transpose(0, 2).norm(dim=0, keepdim=True),
    "new dimension": lambda x: (x + 1).unsqueeze(1),
    "repeated": lambda x: x.repeat(1, 2, 1, 1),
    "product": lambda x: torch.bmm(x, x.transpose(1, 2)),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OF_LENGTH_1)
def test_strides_of_dimensions_of_length_1(name, dynamic, train, monkeypatch):
    monkeypatch.setattr(capture.config, "on_error", "raise")
    program = OF_LENGTH_1[name]
    compiled = meta.compile(program, dynamic=dynamic, fullgraph=True)
    for size in ((2, 3, 4), (3, 2, 5), (1, 3, 4), (2, 1, 3), (1, 1, 3), (3, 1, 1), (1, 1, 1)):
        for x in (torch.randn(size), torch.randn(size[::-1]).permute(2, 1, 0)):
            x.requires_grad_(train)
            results = [torch.utils._pytree.tree_leaves(f(x)) for f in (compiled, program)]
            for one, other in zip(*results, strict=True):
                torch.testing.assert_close(one, other, check_stride=False)
                assert one.stride() == other.stride(), size
