"""Attributes by which torch says what tensors are, in the place of which a program has its own."""

from __future__ import annotations

from types import GetSetDescriptorType
from typing import Any

import pytest
import torch
from dispatching import Pair

import capture

NAMES = sorted(
    n for n, v in vars(torch.Tensor.__mro__[1]).items() if isinstance(v, GetSetDescriptorType) and n[0] != "_"
)


class Plain(torch.Tensor):
    """One whose memory is its own."""


def parts(x: Any) -> list[Any]:
    with torch._C.DisableTorchFunctionSubclass():
        return [x.a.tolist(), x.b.tolist()] if isinstance(x, Pair) else x.as_subclass(torch.Tensor).tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", [Pair, Plain])
def test_of_a_class(base: Any, name: str) -> None:
    cls = type("Own", (base,), {name: property(lambda self: "its own")})

    def make(t: torch.Tensor) -> Any:
        return cls(t, t + 1) if base is Pair else t.as_subclass(cls)

    def fn(x: Any) -> Any:
        return getattr(x, name), x * 2 + 1

    compiled = capture.compile(fn)
    for size in (2, 2, 3):
        told, found = compiled(make(torch.ones(size)))
        wanted = fn(make(torch.ones(size)))[1]
        assert told == "its own"
        assert type(found) is type(wanted)
        assert parts(found) == parts(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_of_all_tensors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: torch.Tensor) -> Any:
        return getattr(x, name, None), (x * 2).tolist()

    known, new = capture.compile(fn), capture.compile(fn)
    x = torch.ones(2, 2, dtype=torch.complex64)  # which has an imaginary part
    before = repr(known(x))
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, name, property(lambda self: "its own"))
        assert known(x) == new(x) == ("its own", [[2.0, 2.0], [2.0, 2.0]])
        assert f"in the place of torch.Tensor.{name}" in new.session.report.skipped[0]
    assert repr(known(x)) == repr(new(x)) == before


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.Tensor.grad.__get__(),
        lambda x: torch.Tensor.grad.__get__(None, torch.Tensor) is torch.Tensor.grad,
        lambda x: torch.Tensor.grad.__get__(3),
        lambda x: torch.Tensor.grad.__get__(instance=x),
        lambda x: torch.Tensor.grad.__get__(x, torch.Tensor),
        lambda x: torch.Tensor.grad.__set__(),
        lambda x: torch.Tensor.grad.__set__(x),
        lambda x: torch.Tensor.grad.__set__(x, None, None),
        lambda x: torch.Tensor.grad.__set__(x, value=None),
    ],
)
def test_what_reads_and_sets_attributes_is_called_in_other_ways(call):
    def program(x):
        try:
            found = call(x)
        except (TypeError, AttributeError) as error:
            found = str(error)
        return x + 1, found

    compiled = capture.compile(program)
    assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
