"""Modules whose classes override what `torch.nn.Module` does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture


class _Twice(torch.nn.Linear):
    """Overrides ``__call__`` and goes on through ``super()``."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) * 2


def test_an_overridden_call_goes_on_through_super() -> None:
    module = _Twice(4, 4)
    x = torch.randn(3, 4)
    compiled = capture.compile(lambda x: module(x) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x) + 1)


def test_a_name_taken_in_an_earlier_table() -> None:
    model = torch.nn.Module()
    model.register_buffer("scale", torch.ones(3))
    compiled, x = capture.compile(lambda x: x * model.scale), torch.ones(3)
    assert torch.equal(compiled(x), x)
    model._parameters["scale"] = torch.nn.Parameter(torch.full((3,), 2.0))
    assert torch.equal(compiled(x), 2 * x)
    del model._parameters["scale"]
    assert torch.equal(compiled(x), x)


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_another_code_in_torchs_functions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.ones(2)
    compiled = capture.compile(lambda x: module(x), fullgraph=True)

    def tenfold(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs) * 10

    plain, expected = compiled(x), module(x) * 100  # both modules' calls
    with monkeypatch.context() as replaced:
        replaced.setattr(getattr(torch.nn.Module, name), "__code__", tenfold.__code__)
        torch.testing.assert_close(compiled(x), expected)
    assert torch.equal(compiled(x), plain)
