"""``copy.copy`` and ``copy.deepcopy`` of tensors in a captured function: what shares memory with what, and which part of a memory is there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def whole() -> torch.Tensor:
    return torch.arange(6.0)


def part() -> torch.Tensor:
    return torch.arange(9.0)[3:]


def marked() -> torch.Tensor:
    x = torch.arange(6.0)
    x.mark = ["on it"]
    return x


def copied(x):
    y = copy.copy(x)
    z = x.sin() * y
    y.add_(1)
    return y, z, y.is_leaf, y is x


def part_copied(x):
    y = copy.copy(x[2:])
    y.mul_(2)
    return y, y.storage_offset()


def made_and_copied(x):
    y = x * 2
    z = copy.copy(y)
    z.zero_()
    return y, z


def part_copied_deeply(x):
    y = copy.deepcopy(x[2:])
    return y, y.storage_offset()


def part_of_what_was_made_copied_deeply(x):
    y = copy.deepcopy((x * 2)[1:])
    return y, y.storage_offset()


def copied_deeply_in_another_shape(x):
    y = copy.deepcopy(x.view(2, 3))
    y += 1
    return y, y.storage_offset()


@pytest.mark.parametrize(
    "fn",
    [
        copied,
        part_copied,
        made_and_copied,
        part_copied_deeply,
        part_of_what_was_made_copied_deeply,
        copied_deeply_in_another_shape,
    ],
)
def test_copies(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for make in (whole, part, marked, whole):
        plain, given = make(), make()
        wanted, got = fn(plain), compiled(given)
        for a, b in zip([*wanted, plain], [*got, given], strict=True):
            if not isinstance(a, torch.Tensor):
                assert a == b
                continue
            assert torch.equal(a, b)
            assert vars(a) == vars(b)
            assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
            shares = a.untyped_storage().data_ptr() == plain.untyped_storage().data_ptr()
            assert (b.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()) is shares


@pytest.mark.parametrize("fn", [copied, part_copied, made_and_copied])
def test_a_copy_of_the_same_memory_is_part_of_the_graph(fn: Callable[..., Any]) -> None:
    assert capture.explain(fn, whole()).breaks == []


class Copies(torch.Tensor):
    """Says itself what a copy is."""

    def __copy__(self):
        return (self * 3).as_subclass(torch.Tensor)


def test_a_class_says_what_a_copy_is() -> None:
    def program(x):
        return copy.copy(x) + 1

    compiled = capture.compile(program, fullgraph=True)
    assert torch.equal(compiled(whole().as_subclass(Copies)), program(whole().as_subclass(Copies)))
