"""Geometry of views against eager's, over random sizes and strides."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symshapes import FakeMode
from symshapes.rules.layout import TensorMeta, is_dense, preserved_strides
from symshapes.rules.views import view_strides


@st.composite
def tensors(draw, max_rank=4):
    """A view into a larger tensor: permuted, sliced with steps, and expanded at random."""
    rank = draw(st.integers(0, max_rank))
    size = [draw(st.integers(0, 4)) for _ in range(rank)]
    order = draw(st.permutations(range(rank)))
    steps = [draw(st.integers(1, 2)) for _ in range(rank)]
    base = torch.zeros([length * step for length, step in zip(size, steps)])
    t = base[tuple(slice(None, None, step) for step in steps)].permute(order) if rank else base
    if rank and draw(st.booleans()):
        dim = draw(st.integers(0, rank - 1))
        if t.size(dim) == 1:
            t = t.expand(*t.shape[:dim], draw(st.integers(1, 3)), *t.shape[dim + 1 :])
    return t


def _divisions(count):
    return st.lists(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]), max_size=3)


@settings(max_examples=300, deadline=None)
@given(tensors(), st.data())
def test_view(t, data):
    count = t.numel()
    if count:
        target, rest = [], count
        for length in data.draw(_divisions(count)):
            if rest % length == 0:
                target.append(length)
                rest //= length
        target = (*target, rest)
    else:
        target = (0, 3)
    mine = view_strides(tuple(t.shape), t.stride(), target)
    try:
        theirs = t.view(target).stride()
    except RuntimeError:
        theirs = None
    assert mine == theirs


@settings(max_examples=300, deadline=None)
@given(tensors())
def test_preserved_strides_and_density(t):
    meta = TensorMeta(tuple(t.shape), t.stride(), t.dtype, t.device)
    assert preserved_strides(meta) == torch.empty_like(t).stride()
    if t.numel():
        assert is_dense(meta.size, meta.stride) == torch.ops.aten.is_non_overlapping_and_dense(t)


@settings(max_examples=300, deadline=None)
@given(tensors(), st.data())
def test_view_ops(t, data):
    rank = t.dim()
    ops = [lambda x: x.squeeze(), lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1)]
    if rank:
        dim = data.draw(st.integers(-rank, rank - 1))
        start, end = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
        step = data.draw(st.integers(1, 3))
        ops += [
            lambda x: torch.ops.aten.slice.Tensor(x, dim, start, end, step),
            lambda x: x.squeeze(dim),
            lambda x: x.transpose(dim, 0),
            lambda x: x.expand(2, *x.shape),
            lambda x: x.expand(*[-1] * rank),
            lambda x: x.select(dim, start),
            lambda x: x.unfold(dim, 2, step),
            lambda x: x.split(2, dim)[-1],
            lambda x: x.chunk(3, dim)[-1],
            lambda x: x.narrow(dim, 1, 1),
        ]
    if rank > 1:
        ops.append(lambda x: x.diagonal(start, 0, 1))
    fake = FakeMode().from_tensor(t)
    for op in ops:
        try:
            real = op(t)
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                op(fake)
            continue
        mine = op(fake)
        assert (mine.shape, mine.stride()) == (real.shape, real.stride())
        if real.numel():
            assert mine.storage_offset() == real.storage_offset()
        assert mine.storage_key is fake.storage_key
