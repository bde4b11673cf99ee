"""`pad_sequence` of sequences whose lengths are in data is one graph, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

import capture
import meta

X = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "steps first": lambda x, n: pad_sequence([x[0, : n[0]], x[1, : n[1]]]) * 2,
    "before the beginning": lambda x, n: pad_sequence(
        [x[i, :k, 0] for i, k in enumerate(n)], batch_first=True, padding_value=2, padding_side="left"
    ),
    "what masks pick": lambda x, n: pad_sequence([r[m] for r, m in zip(x, x[:, :, 0] > n[0] - 3, strict=True)], True),
    "a whole one beside": lambda x, n: pad_sequence([x[0], x[1, : n[1]]], padding_value=-1.5) + 1,
    "and multiplied": lambda x, n: pad_sequence([x[i, :k] for i, k in enumerate(n)], True) @ torch.ones(3, 2),
}
#: One is converted, which eager does, or refused.
OTHERS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "of two dtypes": lambda x, n: pad_sequence([x[1, : n[1]], x[0, : n[0]].double()]),
    "of two widths": lambda x, n: pad_sequence([x[1, : n[1]], x[0, : n[0], :2]]),
}


def outcome(function: Any, n: torch.Tensor) -> Any:
    x = X.clone().requires_grad_()
    try:
        found = function(x, n)
    except RuntimeError as error:
        return str(error)
    found.sin().sum().backward()
    return found.detach(), x.grad


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_sequences_are_filled_up(name: str, backend: str) -> None:
    function = (PROGRAMS | OTHERS)[name]
    compiled = meta.compile(function, backend=backend, fullgraph=name in PROGRAMS)
    for lengths in ([2, 4], [5, 3], [0, 2], [1, 1], [0, 0], [6, 6], [-1, 3]):
        n = torch.tensor(lengths)
        wanted, found = outcome(function, n), outcome(compiled, n)
        if isinstance(wanted, str):
            assert found == wanted
        else:
            torch.testing.assert_close(found, wanted)
    if name in PROGRAMS:
        assert capture.report(compiled).graph_count == 1
