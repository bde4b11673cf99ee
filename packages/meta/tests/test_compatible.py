"""`meta`'s counterparts of what `torch.compiler` has: they are `capture`'s, and do what they say of what `meta.compile` compiled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import capture
import meta


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    meta.reset()
    yield
    meta.set_stance("default")


x = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "name",
    ["allow_in_graph", "assume_constant_result", "disable", "is_compiling", "set_stance", "substitute_in_graph"],
)
def test_they_are_captures(name: str) -> None:
    assert getattr(meta, name) is getattr(capture, name)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def test_a_module_in_its_own_place_trains_and_is_copied() -> None:
    torch.manual_seed(0)
    plain, module = Net(), Net()
    module.load_state_dict(plain.state_dict())
    assert meta.compile_module(module, fullgraph=True) is module
    for net in (plain, module):
        net(x).sum().backward()
    torch.testing.assert_close(module.linear.weight.grad, plain.linear.weight.grad)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(again(x), plain(x))
        assert capture.report(again._compiled_call_impl).graph_count == 1
    with pytest.raises(ValueError, match="unknown backend"):
        meta.compile_module(Net(), backend="none such")


def test_an_opaque_operation_is_compiled_through() -> None:
    @meta.allow_in_graph
    def opaque(x: torch.Tensor, k: float) -> torch.Tensor:
        return (x * k).sin()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return opaque(x + 1, 2.0) * 3

    w = x.clone().requires_grad_()
    run = meta.compile(fn, fullgraph=True)
    torch.testing.assert_close(run(w), fn(w))
    found, expected = (torch.autograd.grad(each(w).sum(), w)[0] for each in (run, fn))
    torch.testing.assert_close(found, expected)


def test_decorated_class_and_entries() -> None:
    @meta.compile
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @meta.compile(fullgraph=True)
        @classmethod
        def made(cls, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        asked = meta.compile(property(lambda self: x * 3))

    module: Any = Doubles()
    assert isinstance(module, Doubles)
    torch.testing.assert_close([module(x), module.made(x), module.asked], [x * 2, x + 1, x * 3])


def test_it_may_be_asked_to_do_nothing() -> None:
    assert meta.compile(Net, disable=True) is Net
    assert meta.compile(disable=True)(len) is len


def test_options_that_programs_give_to_torch_compile() -> None:
    options = {"epilogue_fusion": True, "shape_padding": True, "max_autotune": False, "fallback_random": True}
    run: Any = meta.compile(lambda x: torch.dropout(x, 0.5, True), options=options)
    torch.manual_seed(0)
    found = run(x)
    torch.manual_seed(0)
    assert torch.equal(found, torch.dropout(x, 0.5, True)), "eager's numbers were asked for"
    assert meta.MODES["default"].options_with({"max_autotune": True}).autotune is True


def test_compiled_twice_it_is_what_it_was() -> None:
    module = meta.compile(meta.compile(Net(), backend="eager"), backend="eager")
    assert isinstance(module, Net) and list(module.state_dict()) == ["linear.weight", "linear.bias"]
    torch.testing.assert_close(module(x), module.linear(x).relu())
