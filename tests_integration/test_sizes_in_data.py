"""What is expanded, or resized, to numbers that tensors hold is in one graph, whatever they are: -1 keeps a length, as in eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import meta

ROW = torch.randn(1, 3, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(1, 2, 4, 6, generator=torch.Generator().manual_seed(1))

EXPANDED: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "a row": lambda x, n: x.expand(n.item(), -1) * 2,
    "a row to a tensor": lambda x, n: x.expand(n, 3) + 1,
    "a row that has as many": lambda x, n: x.expand(2, n.item()) * 2,
    "before the first": lambda x, n: x.expand(n.item(), 1, 3) + 1,
    "one number": lambda x, n: x[0, 0].expand(n.item(), 2) * 2,
    "broadcast": lambda x, n: torch.broadcast_to(x, (n.item(), 3)).sum(0),
    "and what has as many, after": lambda x, n: x.expand(n.item(), -1) + torch.ones(n.item(), 1),
    "and what has as many, before": lambda x, n: torch.ones(n.item(), 1) + x.expand(n.item(), -1),
    "its size": lambda x, n: (y := x.expand(n.item(), 3)) * y.shape[0],
    "copied": lambda x, n: x.expand(n.item(), 3).reshape(-1).relu(),
    "multiplied": lambda x, n: x.expand(n.item(), 3) @ torch.ones(3, 5),
    "joined": lambda x, n: torch.cat([x.expand(n.item(), 3), x]),
}


def outcome(function: Any, x: torch.Tensor, *more: Any) -> Any:
    """What comes of a call and its backward; the type of what it raises."""
    x = x.clone().requires_grad_()
    try:
        results = [leaf for leaf in tree_leaves(function(x, *more)) if isinstance(leaf, torch.Tensor)]
    except RuntimeError as error:
        return type(error)
    sum(r.sin().sum() for r in results).backward()  # type: ignore[union-attr]
    return [r.detach() for r in results], x.grad


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", EXPANDED)
def test_a_tensor_is_expanded_as_data_says(name: str, backend: str) -> None:
    def expanded(x: torch.Tensor, n: Any) -> Any:
        return EXPANDED[name](x, n)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of its kernels is interpreted
        compiled = meta.compile(expanded, backend=backend, fullgraph=True)
        for number in (3, 1, 0, -1, -2, 4):
            n = torch.tensor(number)
            wanted, found = outcome(expanded, ROW, n), outcome(compiled, ROW, n)
            if isinstance(wanted, type):
                assert found is wanted, number
            else:
                torch.testing.assert_close(found, wanted)


RESIZED: dict[str, Callable[[torch.Tensor, Any, Any], Any]] = {
    "numbers in tensors": lambda x, h, w: F.interpolate(x, size=(h, w)),
    "by lines": lambda x, h, w: F.interpolate(x, size=[h, w], mode="bilinear", align_corners=True),
    "a number beside": lambda x, h, w: F.interpolate(x, size=(h, 7), mode="bicubic"),
    "one for both": lambda x, h, w: F.interpolate(x, size=h),
    "of a row": lambda x, h, w: F.interpolate(x[0], size=(h,), mode="linear"),
    "filled up": lambda x, h, w: F.pad(F.interpolate(x, size=(h, w)), (0, 9 - w, 0, 9 - h)),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", RESIZED)
def test_an_image_is_resized_as_data_says(name: str, backend: str) -> None:
    def resized(x: torch.Tensor, sizes: torch.Tensor) -> Any:
        h, w = sizes
        return RESIZED[name](x, h, w)

    compiled = meta.compile(resized, backend=backend, fullgraph=True)
    for numbers in ([5, 7], [1, 2], [4, 6]):
        sizes = torch.tensor(numbers)
        torch.testing.assert_close(outcome(compiled, IMAGE, sizes), outcome(resized, IMAGE, sizes))
    for numbers in ([0, 3], [-1, 2]):
        sizes = torch.tensor(numbers)
        assert outcome(compiled, IMAGE, sizes) is outcome(resized, IMAGE, sizes) is RuntimeError, numbers


def test_a_size_is_the_number_that_it_was_made_of() -> None:
    """As models assert it, whose error's text is computed."""

    def rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        n = i.max()
        y = x.new_zeros(n, 3)
        assert list(y.size()) == [n, 3], f"of other sizes: {y.size()}"
        if y.shape[0] != n or n < y.shape[0]:
            return y
        return y + n

    compiled = meta.compile(rows, backend="eager", fullgraph=True)
    for i in (torch.tensor([1, 4]), torch.tensor([0, 0])):
        assert torch.equal(compiled(ROW, i), rows(ROW, i))


def test_a_size_is_not_the_number_that_was_written_there_since() -> None:
    def rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        n = i.max()
        y = x.new_zeros(n, 3)
        n.data.add_(1)
        return y if y.shape[0] == n else y + 1

    compiled = meta.compile(rows, backend="eager")
    for i in (torch.tensor([1, 4]), torch.tensor([2, 0])):
        assert torch.equal(compiled(ROW, i), rows(ROW, i))
