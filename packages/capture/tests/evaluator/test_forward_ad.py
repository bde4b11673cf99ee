"""Forward-mode differentiation: tangents are nowhere in a tensor's metadata, so no capture runs while a level is on."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward_ad

import capture


def tangent_of(f, x: torch.Tensor) -> torch.Tensor | None:
    with forward_ad.dual_level():
        out = f(forward_ad.make_dual(x, torch.ones_like(x)))
        return forward_ad.unpack_dual(out).tangent


def test_a_capture_of_plain_tensors_does_not_drop_tangents() -> None:
    x = torch.randn(3)
    f = capture.compile(torch.sin)
    f(x)
    torch.testing.assert_close(tangent_of(f, x), x.cos())
    f(x)
    assert f.session.report.graph_count == 1


def test_a_first_call_with_tangents_leaves_later_calls_to_be_captured() -> None:
    x = torch.randn(3)
    f = capture.compile(lambda x: x.sin() * 2)
    torch.testing.assert_close(tangent_of(f, x), 2 * x.cos())
    f(x)
    assert f.session.report.graph_count == 1


def test_a_level_entered_within_the_function() -> None:
    x = torch.randn(3)
    f = capture.compile(lambda x: tangent_of(torch.sin, x * 2))
    torch.testing.assert_close(f(x), (2 * x).cos())


def test_asking_for_a_tangent_outside_of_levels_ends_no_graph() -> None:
    def clamped(x: torch.Tensor) -> torch.Tensor:
        y = x.clamp(0.0, 1.0)
        if forward_ad.unpack_dual(x).tangent is None:
            return y
        return torch.where(y == x, x, y)

    x = torch.randn(3)
    f = capture.compile(clamped)
    assert torch.equal(f(x), clamped(x))
    torch.testing.assert_close(tangent_of(f, x), tangent_of(clamped, x))
    assert f.session.report.graph_count == 1
    assert not f.session.report.breaks


def test_a_tangent_outside_of_levels_is_refused_in_torchs_words() -> None:
    def refused(x: torch.Tensor) -> str:
        try:
            forward_ad.make_dual(x, x)
        except RuntimeError as error:
            return str(error)
        return ""

    x = torch.randn(3)
    assert capture.compile(refused)(x) == refused(x)
