"""Places that tensors hold (`x[lengths[0]]`, `scores[..., best]`) are read and set in one graph, for any of them; out of range it raises as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
import meta

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def with_set(x: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    y = x * 1
    y[key] = value
    return y


PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "a row": lambda x, i: x[i[0]],
    "an element": lambda x, i: x[i[0], i[1]],
    "a column": lambda x, i: x[..., i[1]],
    "in a row": lambda x, i: x[0, i[0]],
    "and a part": lambda x, i: x[i[0], i[1] :],
    "and a dimension": lambda x, i: x[None, i[0]],
    "and a list": lambda x, i: x[i, i[0]],
    "the largest": lambda x, i: x[x.sum(1).argmax()],
    "short": lambda x, i: x[i[0].to(torch.int32)],
    "an element is set": lambda x, i: with_set(x, (i[0], i[1]), 5.0),
    "a row is set": lambda x, i: with_set(x, i[0], x[1]),
    "a column is set": lambda x, i: with_set(x, (..., i[1]), x[:, 1]),
}


def outcome(function: Any, i: torch.Tensor) -> Any:
    x = X.clone().requires_grad_()
    try:
        found = function(x, i)
    except IndexError as error:
        return str(error)
    found.sin().sum().backward()
    return found.detach(), x.grad


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_place_in_data(name: str, backend: str) -> None:
    function = PROGRAMS[name]
    compiled = meta.compile(function, backend=backend, fullgraph=True)
    for places in ([1, 3], [2, 0], [-1, -3], [3, 3], [7, 1]):
        i = torch.tensor(places)
        wanted, found = outcome(function, i), outcome(compiled, i)
        if isinstance(wanted, str):
            assert found == wanted
        else:
            torch.testing.assert_close(found, wanted)
    assert capture.report(compiled).graph_count == 1


def test_a_place_that_needs_no_number_to_be_named() -> None:
    """No kernel reads what only a check of the run tells to be there."""

    def program(t: torch.Tensor) -> torch.Tensor:
        return t.nonzero()[0, 0] + 1

    compiled = meta.compile(program, fullgraph=True)
    assert compiled(torch.tensor([0, 3])) == 2
    with pytest.raises(IndexError, match="index 0 is out of bounds"):
        compiled(torch.zeros(2, dtype=torch.int64))
