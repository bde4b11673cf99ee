"""Inference mode that a frame enters is part of its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def within(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
        told = torch.is_inference_mode_enabled(), y.is_inference(), x.is_inference()
    return y, told, x.view(-1) + 1, torch.is_inference(y)


def test_what_is_made_within() -> None:
    compiled = capture.compile(within, lambda module, _: module.forward, fullgraph=True)
    x = torch.randn(2, 3, requires_grad=True)
    for _ in range(2):
        y, *told = compiled(x)
        assert y.is_inference() and torch.equal(y, x.detach() * 2)
        assert told[0] == (True, True, False) and told[1].requires_grad and told[2] is True
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_what_a_caller_has_in_force() -> None:
    compiled = capture.compile(within, lambda module, _: module.forward)
    with torch.inference_mode():
        y, told, z, _ = compiled(torch.ones(2))
        assert told[0] and y.is_inference() and z.is_inference() and torch.is_inference_mode_enabled()


def left_open(x: torch.Tensor) -> Any:
    mode = torch.inference_mode()
    mode.__enter__()
    y = x + 1
    return y, mode


def test_a_block_that_stays_open_is_entered_for_real() -> None:
    compiled = capture.compile(left_open, lambda module, _: module.forward)
    y, mode = compiled(torch.ones(2))
    try:
        assert torch.is_inference_mode_enabled() and y.is_inference()
    finally:
        mode.__exit__(None, None, None)
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def viewed_outside(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
    turned = y.t()
    return turned, y.view(-1)[2:], turned + 1


def test_a_view_taken_outside_was_made_within_too() -> None:
    compiled = capture.compile(viewed_outside, lambda module, _: module.forward, fullgraph=True)
    for x in (torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)):
        for given, expected in zip(compiled(x), viewed_outside(x), strict=True):
            assert given.is_inference() is expected.is_inference()
            assert torch.equal(given, expected) and given.stride() == expected.stride()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            compiled(x)[0].add_(1)


def written_within(x: torch.Tensor) -> torch.Tensor:
    viewed = x.view(-1)
    with torch.inference_mode():
        viewed.mul_(2)
    return x


def test_an_inference_tensor_from_outside_is_written_within() -> None:
    compiled = capture.compile(written_within, lambda module, _: module.forward)
    for within in (False, True, False):
        with torch.inference_mode(within):
            x = torch.ones(2, 3)
        assert compiled(x) is x and torch.equal(x, torch.full((2, 3), 2.0)) and x.is_inference() is within


def test_a_hook_that_is_not_followed() -> None:
    """What stood for its gradient while it was looked at is in no graph."""

    def program(x, y):
        y.mul_(2)
        x.register_hook(lambda gradient: gradient)
        return x * y

    results = []
    for fn in (program, capture.compile(program)):
        with torch.inference_mode():
            results.append(fn(torch.nn.Parameter(torch.ones(3)), torch.ones(3)))
    assert torch.equal(*results)


def written_in_a_try(x: torch.Tensor, given: torch.Tensor) -> object:
    x = x * 2
    try:
        given[0] = given[1]
    except RuntimeError as error:
        return x, str(error)
    return x


def viewed_in_a_try(x: torch.Tensor, given: torch.Tensor) -> object:
    try:
        return given.view(3, 1).add_(x[0])
    except RuntimeError as error:
        return str(error)


def asked_for_gradients(x: torch.Tensor, given: torch.Tensor) -> object:
    try:
        return given.requires_grad_()
    except RuntimeError as error:
        return x + 1, str(error)


def written_in_a_list(x: torch.Tensor, given: torch.Tensor) -> object:
    try:
        return torch._foreach_add_([given], 1.0)
    except RuntimeError as error:
        return str(error), given.tolist()


@pytest.mark.parametrize("program", [written_in_a_try, viewed_in_a_try, written_in_a_list, asked_for_gradients])
def test_what_torch_refuses_of_an_inference_tensor_is_caught(program: Callable[..., object]) -> None:
    with torch.inference_mode():
        given = torch.ones(3)
    compiled = capture.compile(program, backend="eager")
    for _ in range(2):
        results = []
        for function in (program, compiled):
            with torch.inference_mode():
                given.fill_(1)  # eager has written before it refuses
            results.append(function(torch.ones(3), given))
        expected, got = results
        assert str(got) == str(expected) and "nference" in str(got)
