"""Operators over rows that a mask picks: one graph for any number of them, none and one included, with eager's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import meta


class Normed(torch.nn.Module):
    """Forgets slowly, so that what it remembers shows each call."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4, momentum=0.3)
        torch.nn.init.uniform_(self.norm.weight)
        self.train(training)

    def forward(self, x: Tensor, m: Tensor) -> Tensor:
        return self.norm(x[m]).sin()


def forms() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    torch.manual_seed(0)
    return {
        "cumsum": lambda x, m: x[m].cumsum(0),
        "cumsum of columns": lambda x, m: torch.cumsum(x[m], -1),
        "std": lambda x, m: x[m].std(),
        "std and mean": lambda x, m: torch.stack(torch.std_mean(x[m])),
        "std of rows": lambda x, m: x[m].std(1),
        "var": lambda x, m: torch.var(x[m], correction=0) * 2,
        "batch norm in training": Normed(True),
        "batch norm": Normed(False),
        "put back": lambda x, m: x.masked_scatter(m[:, None].expand_as(x), x[m] * 2),
        "put in part": lambda x, m: x.masked_scatter((m & (x[:, 0] > 0.4))[:, None].expand_as(x), x[m] * 2),
        "sort": lambda x, m: x[m].sort(0)[0],
        "half of another": half,
    }


def half(x: Tensor, m: Tensor) -> Tensor:
    y, k = x[m], x.shape[0] // 2
    torch._check(y.shape[0] == k)
    return y + x[:k]


def outcome(run: Callable[..., Any], rows: int, grad: bool) -> list[Any]:
    x = torch.rand(8, 4, generator=torch.Generator().manual_seed(rows)).requires_grad_(grad)
    try:
        result = run(x, torch.arange(8) < rows)
    except (ValueError, RuntimeError) as error:
        return [type(error)]
    found = [result]
    if grad:
        parameters = [*run.parameters()] if isinstance(run, torch.nn.Module) else []
        found += torch.autograd.grad(result.exp().sum(), [x, *parameters])
    if isinstance(run, torch.nn.Module):
        # How many batches there were eager counts before it refuses one, and a graph does not.
        found += [each.clone() for each in run.buffers() if each.is_floating_point()]
    return found


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize(("backend", "grad"), [("aot_eager", True), ("inductor", True), ("inductor", False)])
def test_any_number_of_rows(form: str, backend: str, grad: bool) -> None:
    plain, program = forms()[form], forms()[form]
    compiled = meta.compile(program, backend=backend, fullgraph=True)
    for rows in (5, 3, 0, 1, 4, 8):
        mine, wanted = outcome(compiled, rows, grad), outcome(plain, rows, grad)
        if isinstance(wanted[0], type):
            assert issubclass(mine[0], wanted[0]), rows
        else:
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert compiled.session.report.graph_count == 1
