"""Views by strides of what begins anywhere in its memory: elements are counted from the memory's start."""

from __future__ import annotations

import pytest
import torch

import meta


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("offset", [None, 3])
def test_views_by_strides(backend: str, offset: int | None) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((x.shape[0],), (x.stride(0),), offset) * 2

    compiled = meta.compile(program, backend=backend)
    memory = torch.randn(9, 4)
    for first, last in ((1, 3), (0, 2), (3, 6), (2, 6), (0, 6)):
        torch.testing.assert_close(compiled(memory[first:last]), program(memory[first:last]))
