"""However a call ends, as many blocks of autocast are open as before: with the last one go the copies of weights that torch keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

WEIGHT = torch.ones(4, 2)


def nesting() -> int:
    more: int = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return more - 1


def whole(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x).sum() + torch.nn.functional.embedding(i, WEIGHT).sum()


def broken(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        compile("0", "", "eval")
        return y.sum() + torch.nn.functional.embedding(i, WEIGHT).sum()


def refuses(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ (x * 2)
        if i.sum() > 3:
            raise IndexError
        return y


BACKENDS: list[Callable[..., Any]] = [
    lambda module, inputs: module,
    lambda module, inputs: module.forward,
    lambda module, inputs: lambda *args: module(*args),
]


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [whole, broken, refuses])
def test_nesting_is_as_before(fn: Callable[..., Any], backend: Callable[..., Any], outer: bool) -> None:
    compiled, x = capture.compile(fn, backend), torch.ones(2, 2)
    for around in (outer, False, True):
        with torch.autocast("cpu", enabled=False) if around else contextlib.nullcontext():
            for i in (1, 9, 1):
                with contextlib.suppress(IndexError):
                    compiled(torch.tensor([i]), x)
                assert nesting() == int(around)
    assert nesting() == 0


def test_an_interrupted_capture_leaves_no_block_open() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture.compile(broken, backend)(torch.tensor([1]), torch.ones(2, 2))
    assert nesting() == 0
