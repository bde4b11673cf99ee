"""Backends take inputs for separate: what they compiled runs for tensors side by side in one storage, and not for those that overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

BASE = torch.arange(12.0)
PAIRS: dict[str, tuple[Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], bool]] = {
    "apart": (lambda t: (t[:4], t[6:10].clone()), True),
    "side by side": (lambda t: (t[:4], t[4:8]), True),
    "the other way round": (lambda t: (t[4:8], t[:4]), True),
    "overlapping": (lambda t: (t[:4], t[2:6]), False),
    "the same memory": (lambda t: (t[:4], t[:4]), False),
}


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + y.flip(0)


@pytest.mark.parametrize("name", PAIRS)
def test_the_compiled_graph_runs_for_separate_inputs(name: str) -> None:
    calls: list[int] = []

    def backend(module: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            calls.append(1)
            return module.forward(*args)

        return run

    make, separate = PAIRS[name]
    compiled = capture.compile(program, backend)
    compiled(BASE[:4].clone(), BASE[4:8].clone())
    found, expected = BASE.clone(), BASE.clone()
    torch.testing.assert_close(compiled(*make(found)), program(*make(expected)))
    torch.testing.assert_close(found, expected)
    assert len(calls) == 1 + separate
