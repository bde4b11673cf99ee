"""Views that autograd gives up, since what they are views of was written: as lost as in eager, and no failure of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import capture
import meta

Program = Callable[[torch.Tensor], Any]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


def beside_the_base(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = x.split(2)
    x[:2].zero_()
    return x, parts


def alone(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = x.unbind(0)
    x[:2].zero_()
    return parts[1]


def views_of_one(x: torch.Tensor) -> Any:
    x = x.clone()
    first = x.split(2)[0]
    whole, part = first.view(-1), first[:1]
    x.zero_()
    return whole, part


def used(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = x.split(2)
    x[:2].zero_()
    return parts[1] + 1


def detached(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = x.split(2)
    x[:2].zero_()
    return x, parts[1].detach()


def made_without_gradients(x: torch.Tensor) -> Any:
    x = x.clone()
    with torch.no_grad():
        view = x.view(-1)
    x.mul_(2)
    return view, x


def written_themselves(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = x.split(2)
    parts[0].zero_()
    return x, parts


def of_an_input_written_later(x: torch.Tensor) -> Any:
    parts = x.split(2)
    with torch.no_grad():
        x.mul_(2)
    return parts


def of_an_input_written_before(x: torch.Tensor) -> Any:
    with torch.no_grad():
        x.mul_(2)
    parts = x.split(2)
    return parts, parts[0] * 2


def split_twice(x: torch.Tensor) -> Any:
    x = x.clone()
    x.mul_(2)
    first, second = x.chunk(2), x.chunk(2)
    return x, first, second, first[0] * 3


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"


def judged(program: Program) -> Any:
    x = torch.arange(6.0, requires_grad=True)

    def run() -> Any:
        result = program(x)
        found = facts(result)
        # Views that were made together may not be written.
        return found, [outcome(lambda v=v: v.mul_(2).tolist()) for v in pytree.tree_leaves(result)]

    return outcome(run), x.grad


def facts(value: Any) -> Any:
    """Values, and what autograd says of them."""
    if isinstance(value, tuple):
        return [facts(each) for each in value]
    backward = outcome(lambda: value.sum().backward(retain_graph=True))
    return value.detach().tolist(), value.requires_grad, outcome(lambda: value.is_leaf), backward


PROGRAMS = [
    beside_the_base, alone, views_of_one, used, detached, made_without_gradients, written_themselves,
    of_an_input_written_later, of_an_input_written_before, split_twice,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_views_are_as_lost_as_in_eager(program: Program) -> None:
    assert repr(judged(meta.compile(program, backend="aot_eager"))) == repr(judged(program))


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_what_is_lost_is_said() -> None:
    for backend in ("aot_eager", "inductor"):
        compiled = meta.compile(beside_the_base, backend=backend)
        compiled(torch.arange(6.0, requires_grad=True))
        (why,) = compiled.session.report.skipped
        assert "no place in autograd" in why and "returns multiple views" in why
        with pytest.raises(capture.GraphBreakError, match="no place in autograd"):
            meta.compile(beside_the_base, backend=backend, fullgraph=True)(torch.arange(6.0, requires_grad=True))


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", ["use", "detach", "view", "write"])
def test_lost_views_as_inputs(name: str, grad: bool) -> None:
    program: Program = {
        "use": lambda x: x * 2,
        "detach": lambda x: x.detach() * 2,
        "view": lambda x: x.view(-1) * 2,
        "write": lambda x: x.mul_(2),
    }[name]

    def judge(call: Program) -> str:
        x = beside_the_base(torch.arange(6.0, requires_grad=True))[1][1]
        with torch.set_grad_enabled(grad):
            return repr(outcome(lambda: call(x).tolist()))

    assert judge(meta.compile(program, backend="aot_eager")) == judge(program)
