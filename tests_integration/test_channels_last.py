"""Convolutions with channels last: what else the program does with their images is eager's, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import capture
import meta


@torch.library.custom_op("tests_channels_last::in_memory_order", mutates_args=())
def in_memory_order(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x, (x.numel(),), (1,), 0).clone()


@in_memory_order.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.numel())


def images(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.conv2d(x, w, padding=1).relu(), w)


PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "attention": lambda x, w: F.scaled_dot_product_attention(*[images(x, w)] * 3),
    "weight norm": lambda x, w: torch._weight_norm(images(x, w), torch.ones(2, 1, 1, 1), 0),
    "as_strided_copy": lambda x, w: torch.as_strided_copy(images(x, w)[:, 0, 0, 0], (2, 30), (400, 1), 0),
    "pools": lambda x, w: F.interpolate(F.max_pool2d(images(x, w), 3, 2, 1), scale_factor=2.0, mode="bilinear"),
    "batch norm": lambda x, w: F.batch_norm(images(x, w), None, None, training=True).relu_(),
    "part": lambda x, w: images(x, w)[1],
    "stack": lambda x, w: torch.stack([images(x.to(memory_format=torch.channels_last), w)] * 2, 1),
    "stack in front": lambda x, w: torch.stack([images(x.to(memory_format=torch.channels_last), w)] * 2),
    "stack behind": lambda x, w: torch.stack([images(x.to(memory_format=torch.channels_last), w)] * 2, -1),
    "stack with another": lambda x, w: torch.stack(
        [images(x.to(memory_format=torch.channels_last), w), x[..., :10, :10]], 2
    ),
}


def outcome(program: Callable[..., torch.Tensor], train: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    x, w = (t.requires_grad_(train) for t in (torch.randn(2, 4, 12, 12), torch.randn(4, 4, 3, 3)))
    y = program(x, w)
    found = [y.detach(), torch.tensor([*y.stride(), y.storage_offset()])]
    if train:
        y.sin().sum().backward()
        found += [t.grad for t in (x, w) if t.grad is not None]
    return found


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_images_are_eagers(name: str, train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    found, expected = (outcome(p, train) for p in (meta.compile(PROGRAMS[name]), PROGRAMS[name]))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


CONVOLUTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "dilated, strided, with more around": lambda x, w: F.hardswish(F.conv2d(images(x, w), w, None, 2, 5, 3)),
    "residual": lambda x, w: F.relu6(F.conv2d(images(x, w), w, torch.ones(20), padding=1) + images(x, w)),
    "normalised": lambda x, w: F.silu(F.batch_norm(images(x, w), w[:, 0, 0, 0], w[:, 0, 0, 1].exp())),
    "weights with channels last": lambda x, w: images(x, w.to(memory_format=torch.channels_last)),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_neighbours(name: str, threads: int, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)
    x, w = torch.randn(2, 20, 13, 11), torch.randn(20, 20, 3, 3) / 10
    x = x.to(memory_format=torch.channels_last) if last else x
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found, expected = (program(x, w) for program in (meta.compile(CONVOLUTIONS[name]), CONVOLUTIONS[name]))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.stride() == expected.stride()


def test_an_operator_of_the_users_sees_the_memory_it_was_traced_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return in_memory_order(images(x, w))

    torch.testing.assert_close(outcome(meta.compile(program), False), outcome(program, False), rtol=1e-3, atol=1e-3)
