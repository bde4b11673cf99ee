"""Sizes that change are symbols that may be 1 as well: a program that does not ask for it is not compiled again when a 1 comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import capture

SIZES = ((4, 5), (3, 7), (1, 6), (2, 1), (1, 1), (6, 3))


def heads(x: torch.Tensor) -> torch.Tensor:
    """Attention as models write it: heads out of the width, back again by a view of a copy."""
    b, s, w = x.shape
    q = x.view(b, s, 2, w // 2).transpose(1, 2)
    mask = (torch.arange(s) <= torch.arange(s)[:, None])[None, None].expand(b, 1, s, s)
    y = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    return y.transpose(1, 2).contiguous().view(b, s, w) + x


PROGRAMS: list[Callable[..., Any]] = [
    lambda x: x * 2 + x.sum(0),
    lambda x: x.transpose(0, 1).relu() + torch.arange(x.shape[0]),
    lambda x: (x[:, None] * x[None]).softmax(-1),
    lambda x: x.transpose(0, 1).reshape(-1, 4).mean(0),
    lambda x: F.layer_norm(x + x.mean(1, keepdim=True), (4,)),
    lambda x: F.max_pool1d(x.transpose(0, 1), 2).sum(0),
    heads,
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", [SIZES, SIZES[1:], SIZES[2:] + SIZES[:2]])
def test_a_size_of_one_needs_no_compile(program: Callable[..., Any], sizes: tuple[tuple[int, int], ...]) -> None:
    compiled = capture.compile(program, fullgraph=True)
    for b, s in sizes:
        x = torch.randn(b, s, 4)
        given = (x,) if program is not PROGRAMS[1] else (x[..., :1].expand(b, s, 4)[:, :, 0],)
        expected, got = program(*given), compiled(*given)
        assert torch.equal(expected, got)
        assert expected.stride() == got.stride() or 1 in expected.shape
    assert compiled.session.report.graph_count <= 3


def convolved(x: torch.Tensor) -> torch.Tensor:
    """Down to images of one row or column."""
    for width in (3, 4):
        x = F.group_norm(F.conv2d(x, torch.ones(4, width, 3, 3), stride=2, padding=1), 2)
    return F.interpolate(x, scale_factor=2) + F.adaptive_avg_pool2d(x, 1)


def test_nor_does_one_that_comes_of_a_larger_size() -> None:
    compiled = capture.compile(convolved, fullgraph=True)
    for h, w in ((8, 12), (16, 9), (4, 8), (9, 3), (3, 3)):
        x = torch.randn(2, 3, h, w)
        assert torch.equal(convolved(x), compiled(x))
    assert compiled.session.report.graph_count == 2


def copies(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def writes(x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    y.add_(1)
    return y * 2


@pytest.mark.parametrize("program", [copies, writes])
def test_whether_a_copy_is_one_is_as_in_eager(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = capture.compile(program)
    for b, s in SIZES:
        x = torch.randn(b, s)
        mine, theirs = x.clone(), x.clone()
        expected, got = program(theirs), compiled(mine)
        assert torch.equal(expected, got) and torch.equal(mine, theirs)
        assert (expected.data_ptr() == theirs.data_ptr()) == (got.data_ptr() == mine.data_ptr())


def test_a_program_that_asks_for_it_is_told() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 1 else x + 1

    compiled = capture.compile(program)
    for n in (4, 3, 1, 5, 1):
        x = torch.randn(n)
        assert torch.equal(program(x), compiled(x))
    assert compiled.session.report.graph_count == 3


def checked(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape
    torch._assert(h < 100, f"a height of {h} is too much")
    assert w % 2 == 0, f"{w:>4} columns in {h!s} rows"
    return x.reshape(h, -1, 2).sum(1)


def test_a_message_that_nobody_reads_asks_for_no_number() -> None:
    compiled = capture.compile(checked, fullgraph=True)
    for h, w in ((3, 4), (5, 8), (7, 2), (1, 6), (9, 12)):
        x = torch.randn(h, w)
        assert torch.equal(checked(x), compiled(x))
    assert compiled.session.report.graph_count == 2


def test_a_text_with_a_number_is_right_where_it_is_read() -> None:
    def named(x: torch.Tensor) -> tuple[torch.Tensor, str, int]:
        text = f"{x.shape[0]:>3} rows, " + f"{x.shape[1] * 2}"
        return x + 1, text, len(f"{x.shape[1]}")

    compiled = capture.compile(named)
    for h, w in ((3, 4), (5, 8), (7, 12), (1, 6), (9, 12)):
        x = torch.randn(h, w)
        expected, got = named(x), compiled(x)
        assert torch.equal(expected[0], got[0]) and expected[1:] == got[1:]


ASKING: list[Callable[..., Any]] = [
    lambda x: x.t() + 1 if x.t().is_contiguous() else x.t() * 2,
    lambda x: x.diagonal(0, 0, -1).is_contiguous() or x + 1,
    lambda x: x[:, ::2].is_contiguous(memory_format=torch.contiguous_format) or x + 1,
    lambda x: x.std(0),
    lambda x: x.var(1),
    lambda x: x * (1 / (x.shape[0] - 1)) if x.shape[0] > 1 else x,
]


@pytest.mark.filterwarnings("ignore:(std|var):UserWarning")
@pytest.mark.parametrize("program", ASKING)
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_one_is_laid_out_like_is_seen(program: Callable[..., Any], dynamic: bool | None) -> None:
    compiled = capture.compile(program, dynamic=dynamic)
    for n, m in ((4, 5), (3, 7), (1, 6), (2, 1), (1, 1), (6, 3), (5, 5), (7, 1), (1, 4)):
        x = torch.randn(n, m)
        torch.testing.assert_close(compiled(x), program(x), equal_nan=True)


def laid_out(x: torch.Tensor) -> Any:
    y = x.t()
    return x + 1, y.is_contiguous(), (y * 2).stride(), y.contiguous().stride(), (y * 2).is_contiguous()


def strides_of_made(x: torch.Tensor) -> Any:
    return x + 1, (x.t() * 2).stride()


@pytest.mark.parametrize("program", [laid_out, strides_of_made, lambda x: (x * 2, x.t().is_contiguous())])
def test_a_program_that_asks_for_layouts_is_told_of_each(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = capture.compile(program)
    for size in SIZES:
        x = torch.randn(size)
        (expected, *more), (got, *told) = program(x), compiled(x)
        assert torch.equal(expected, got) and more == told


def test_a_condition_that_an_operator_takes_as_a_bool_is_asked() -> None:
    def program(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=q.shape[2] > 3)

    compiled = capture.compile(program, fullgraph=True)
    for n in (5, 7, 2, 3, 1, 9):
        q = torch.randn(1, 2, n, 4)
        assert torch.equal(program(q), compiled(q))
    assert compiled.session.report.graph_count == 3


def in_channels_last(x: torch.Tensor) -> torch.Tensor:
    y = x.to(memory_format=torch.channels_last)
    y.add_(1)
    return y * 2


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("last", [False, True])
def test_whether_it_is_laid_out_channels_last_already_is_as_in_eager(dynamic: bool | None, last: bool) -> None:
    compiled = capture.compile(in_channels_last, dynamic=dynamic)
    for n, c, s in ((2, 4, 4), (3, 3, 5), (2, 1, 4), (2, 3, 1), (3, 1, 1), (2, 2, 4), (1, 5, 1), (1, 1, 1)):
        x = torch.randn(n, s, s, c).permute(0, 3, 1, 2) if last else torch.randn(n, c, s, s)
        mine, theirs = x.clone(), x.clone()
        expected, got = in_channels_last(theirs), compiled(mine)
        assert torch.equal(expected, got) and torch.equal(mine, theirs)
        assert expected.stride() == got.stride() or 1 in expected.shape
