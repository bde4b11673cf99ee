"""`one_hot` of as many classes as data says is one graph, and refuses what eager refuses in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import capture
import meta

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "as many as there are": lambda i, n: F.one_hot(i) * 2,
    "a number": lambda i, n: F.one_hot(i, n.item()).sum(0),
    "a tensor": lambda i, n: F.one_hot(i, n).float(),
    "one more": lambda i, n: F.one_hot(i, int(i.max()) + 2),
    "of more dimensions": lambda i, n: F.one_hot(i.view(2, -1), num_classes=n.item()).transpose(1, 2) + 1,
}


def outcome(function: Any, *given: torch.Tensor) -> Any:
    try:
        return function(*given)
    except (ValueError, RuntimeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_classes_is_in_data(name: str, backend: str) -> None:
    function = PROGRAMS[name]
    compiled = meta.compile(function, backend=backend, fullgraph=True)
    for classes, count in (
        ([0, 2, 1, 1], 3),
        ([0, 2, 1, 4], 5),
        ([0, 2, 1, 4], 9),
        ([0, 2, 1, 4], -1),  # as many as there are
        ([0, 0, 0, 0], 1),
        ([0, 2, 1, 4], 4),
        ([0, 2, 1, 4], -2),
        ([0, -1, 0, 2], 4),
    ):
        given = torch.tensor(classes), torch.tensor(count)
        wanted, found = outcome(function, *given), outcome(compiled, *given)
        if isinstance(wanted, tuple):
            assert found == wanted
        else:
            assert torch.equal(found, wanted) and found.dtype is wanted.dtype
    assert capture.report(compiled).graph_count == 1
