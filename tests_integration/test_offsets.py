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


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_same_view_of_another_memory(backend: str) -> None:
    """What is known of the calls before says nothing of where another tensor begins."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = x.as_strided((2,), (1,), 0), x.as_strided((2,), (1,), 0)
        return first + second + y.as_strided((2,), (1,), 0) * 2

    compiled = meta.compile(program, backend=backend)
    one, other = torch.randn(8), torch.randn(8)
    with torch.no_grad():
        for x, y in ((one[:4], other[:4]), (one[:4], other[4:]), (one[4:], other[:4])):
            torch.testing.assert_close(compiled(x, y), program(x, y))


def test_what_lies_behind_a_tensor_without_elements() -> None:
    """Such a tensor tells no address."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((7,), (1,), 7) * 2

    x = torch.arange(17.0).as_strided((16, 0), (1, 1), 0)
    assert torch.equal(meta.compile(program)(x), program(x))
