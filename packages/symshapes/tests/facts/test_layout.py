"""Layouts: against what torch says of tensors, and without guards where sizes are symbols."""

import itertools

import pytest
import torch

from symshapes import (
    DimPolicy,
    FakeMode,
    ShapeEnv,
    inverse_permutation,
    is_dense,
    memory_order,
    same_layout,
    same_metadata,
    same_sizes,
)

TENSORS = [
    torch.empty(2, 3, 4),
    torch.empty(2, 3, 4).permute(2, 0, 1),
    torch.empty(2, 3, 4)[:, ::2],
    torch.empty(2, 3, 1).expand(2, 3, 4),
    torch.empty(2, 1, 4),
    torch.empty(2, 4, 5, 3).to(memory_format=torch.channels_last),
    torch.empty(()),
]


@pytest.mark.parametrize("t", TENSORS, ids=lambda t: f"{tuple(t.shape)} {t.stride()}")
def test_dense_and_order(t):
    assert is_dense(t) == torch.ops.aten.is_non_overlapping_and_dense.default(t)
    order = memory_order(t)
    assert t.permute(order).permute(inverse_permutation(order)).stride() == t.stride()
    if is_dense(t):
        assert t.permute(order).is_contiguous()


def test_dimensions_of_size_one_have_any_stride():
    a, b = torch.empty_strided((2, 1, 4), (4, 4, 1)), torch.empty_strided((2, 1, 4), (4, 1, 1))
    assert same_layout(a, b) and same_metadata(a, b) and not same_metadata(a, b.double())


def test_symbols_are_compared_without_guards():
    env = ShapeEnv()
    mode = FakeMode(env)
    policies = [DimPolicy.DYNAMIC] * 2
    x, y = (mode.from_tensor(torch.empty(3, 5), source=name, policy=policies) for name in "xy")
    before = len(env.guards)
    with mode:
        transposed = x.t()
    fakes = [x, y, transposed]
    assert [is_dense(t) for t in fakes] == [True] * 3
    assert memory_order(transposed) == [1, 0]
    assert [same_sizes(a, b) for a, b in itertools.combinations(fakes, 2)] == [False] * 3
    assert same_sizes(x, transposed.permute(1, 0)) and same_layout(x, transposed.permute(1, 0))
    assert len(env.guards) == before


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_a_length_that_is_guessed_to_be_0_leaves_the_order(order):
    env = ShapeEnv()
    one, other = env.create_unbacked_int(), env.create_unbacked_int()
    with FakeMode(env):
        t = torch.empty(2, torch.sym_max(one - other, 0), 3).permute(order)
    assert is_dense(t) and memory_order(t) == list(inverse_permutation(list(order)))
