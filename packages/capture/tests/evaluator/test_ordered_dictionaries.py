"""Attributes that ordered dictionaries have of their own, as `state_dict` gives them."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


@capture.disable
def stop() -> None:
    """A break."""


def of_a_module(x: torch.Tensor) -> Any:
    made = layers.state_dict(prefix="a.")
    return x + 1, made, made._metadata


def of_a_module_over_a_break(x: torch.Tensor) -> Any:
    made = layers.state_dict()
    meta = made._metadata
    stop()
    return x + 1, made, meta is made._metadata


def one_that_holds_itself(x: torch.Tensor) -> Any:
    made: Any = collections.OrderedDict(a=1)
    made.me, made.v = made, [1]
    made.v.append(x * 2)
    stop()
    return x + 1, made.me is made, made.v


def copies(x: torch.Tensor) -> Any:
    made: Any = collections.OrderedDict(a=1)
    made.v = 3
    found = [copy.copy(made).v, copy.deepcopy(made).v]
    return x + 1, found, [hasattr(each, "v") for each in (made.copy(), made | {})], hasattr(made, "w")


def deleted(x: torch.Tensor) -> Any:
    made: Any = collections.OrderedDict(a=1)
    made.v = 3
    del made.v
    try:
        return x, made.v
    except AttributeError as error:
        return x + 1, str(error)


def refused(x: torch.Tensor) -> Any:
    words = []
    for make in (dict, collections.OrderedDict):
        try:
            make().keys = 1  # type: ignore[attr-defined]
        except AttributeError as error:
            words.append(str(error))
    return x + 1, words


def told(value: Any, within: Any = None) -> Any:
    """What a value holds."""
    if isinstance(value, dict):
        items = [(key, told(each, value)) for key, each in value.items() if each is not within]
        return type(value), items, sorted((k, told(v, value)) for k, v in getattr(value, "__dict__", {}).items())
    if isinstance(value, list | tuple):
        return [told(each) for each in value]
    return (value.tolist(), value.requires_grad) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("fn", [of_a_module, of_a_module_over_a_break, one_that_holds_itself, copies, deleted, refused])
def test_as_plain(fn: Callable[..., Any]) -> None:
    x = torch.ones(3)
    compiled = capture.compile(fn)
    for _ in range(2):
        assert told(compiled(x)) == told(fn(x))


def test_the_state_of_a_module_breaks_no_graph() -> None:
    x = torch.ones(3)
    assert told(capture.compile(of_a_module, fullgraph=True)(x)) == told(of_a_module(x))


def test_attributes_of_one_from_outside() -> None:
    def program(made: Any, x: torch.Tensor) -> Any:
        made.count = made.count + 1
        made.seen = x * made.scale
        made["b"] = made.seen + made.count
        return x + made.count, getattr(made, "absent", None), copy.copy({"made": made})["made"] is made

    def called(fn: Any) -> Any:
        made: Any = collections.OrderedDict(a=1)
        made.count, made.scale = 0, 2
        results = [fn(made, X) for _ in range(3)]
        made.scale, made.absent = 2.5, "there"
        results += [fn(made, X), told(made)]
        del made.scale
        with pytest.raises(AttributeError, match="no attribute 'scale'"):
            fn(made, X)
        return [told(each) for each in results], told(made)

    X = torch.ones(3)
    compiled = capture.compile(program)
    assert called(compiled) == called(program)
    assert not [each.reason for each in capture.report(compiled).breaks if "raises" not in each.reason]


def test_an_order_with_keys_that_are_not_there_is_the_programs_to_meet() -> None:
    def fn(x: torch.Tensor) -> Any:
        od = collections.OrderedDict(spam=1, ham=2)
        dict.__delitem__(od, "spam")
        try:
            return repr(od), x
        except KeyError as error:
            return error.args, x + 1

    compiled, x = capture.compile(fn), torch.ones(1)
    for _ in range(2):
        assert compiled(x) == fn(x)
