"""`as_strided` taken apart into simpler views."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import aotgrad
from aotgrad.restride import layout_of, view_of


def layout(t: torch.Tensor):
    return layout_of(t.shape, t.stride(), t.storage_offset())


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.permutations(range(3)),
    st.lists(st.integers(1, 4), min_size=0, max_size=3),
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    st.integers(0, 20),
)
def test_same_elements(size, order, view_size, strides, offset):
    order = [dim for dim in order if dim < len(size)]
    base = torch.arange(4096)[: torch.Size(size).numel()].view(size).permute(order)
    stride = strides[: len(view_size)]
    if offset + sum((n - 1) * s for n, s in zip(view_size, stride)) >= base.numel():
        return
    view = base.as_strided(view_size, stride, offset)
    make = view_of(layout(base), layout(view))
    if make is not None:
        made = make(base)
        assert torch.equal(made, view) and made.shape == view.shape
        assert all(a == b for a, b, n in zip(made.stride(), view.stride(), view.shape) if n != 1)


def test_views_are_found():
    base = torch.arange(60).view(3, 4, 5)
    for view in (base[1], base[:, 1:3], base[..., ::2], base.permute(2, 0, 1)[1:4], base.view(-1), base[2, :, 3], base):
        make = view_of(layout(base), layout(view))
        assert make is not None and torch.equal(make(base), view)


def test_backward_of_a_write_to_a_view_has_no_as_strided():
    def program(x):
        y = x * 2
        y[:, 1].mul_(3)
        return (y,)

    joint = aotgrad.trace_joint(program, [torch.randn(3, 4).requires_grad_()])
    assert not any("as_strided" in str(node.target) for node in joint.graph.nodes)
