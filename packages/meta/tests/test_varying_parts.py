"""Parts of a tensor put in functionally, where sizes and places change from call to call: one compilation, eager's results."""

import pytest
import torch

import capture
import meta

PROGRAMS = {
    "select": lambda x, y, i, j: torch.select_scatter(x, y[0], 0, i),
    "select from the end": lambda x, y, i, j: torch.select_scatter(x * 2, y[:, 0], 1, -i) + 1,
    "slice from": lambda x, y, i, j: torch.slice_scatter(x, y[i:], 0, i),
    "slice to": lambda x, y, i, j: torch.slice_scatter(x, y[:i], 0, 0, i),
    "slice between": lambda x, y, i, j: torch.slice_scatter(x.t(), y.t()[i:j], 0, i, j),
    "every other": lambda x, y, i, j: torch.slice_scatter(x, y[:, ::2], 1, 0, None, 2),
    "past the end": lambda x, y, i, j: torch.slice_scatter(x, y, 0, 0, 10**6),
    "diagonal": lambda x, y, i, j: torch.diagonal_scatter(x, y.diagonal(1), 1),
    "strided": lambda x, y, i, j: torch.as_strided_scatter(x, y[:i, :2], (i, 2), (x.shape[1], 1)),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_of_varying_sizes(name, train, monkeypatch):
    monkeypatch.setattr(capture.config, "on_error", "raise")
    program = PROGRAMS[name]
    compiles = []

    def backend(graph_module, inputs):
        compiles.append(1)
        return meta.backends.inductor(graph_module, inputs)

    compiled = meta.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for size, i, j in (((5, 8), 2, 4), ((6, 9), 3, 5), ((7, 12), 4, 7), ((10, 11), 2, 6)):
        x, y, weight = (torch.randn(size) for _ in range(3))
        outcomes = []
        for run in (compiled, program):
            arguments = [t.clone().requires_grad_(train) for t in (x, y)]
            result = run(*arguments, i, j)
            if train:
                (result * weight.view(result.shape)).sum().backward()
            outcomes.append((result, *(a.grad for a in arguments)))
        assert outcomes[0][0].stride() == outcomes[1][0].stride()
        for one, other in zip(*outcomes, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other)
    assert len(compiles) == 1
