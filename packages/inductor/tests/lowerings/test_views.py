"""Chains of views, over memory and over values not computed yet, give eager's elements and strides."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inductor_tracing import check


@st.composite
def chains(draw: Any) -> tuple[list[int], list[Any]]:
    """A size and a list of view steps that fit it."""
    size = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    x = torch.empty(size)
    steps: list[Any] = []
    for _ in range(draw(st.integers(1, 5))):
        step = draw(steps_for(list(x.size())))
        x = apply(x, step)
        steps.append(step)
        if x.numel() > 512:
            break
    return size, steps


def steps_for(size: list[int]) -> Any:
    rank = len(size)
    choices = [st.tuples(st.just("unsqueeze"), st.integers(0, rank)), st.just(("squeeze",))]
    if rank:
        dim = st.integers(0, rank - 1)
        choices += [
            st.tuples(st.just("permute"), st.permutations(range(rank))),
            st.tuples(st.just("reshape"), shapes(math.prod(size))),
            dim.flatmap(
                lambda d: st.tuples(st.just("slice"), st.just(d), st.integers(0, size[d] - 1), st.integers(1, 3))
            ),
            dim.flatmap(lambda d: st.tuples(st.just("select"), st.just(d), st.integers(0, size[d] - 1))),
            dim.map(lambda d: ("flip", d)),
            st.tuples(st.just("roll"), dim, st.integers(-3, 3)),
            st.tuples(st.just("repeat"), dim),
            st.tuples(st.just("expand"), st.integers(1, 3)),
        ]
    if rank >= 2:
        choices.append(st.tuples(st.just("diagonal"), st.integers(1 - size[-2], size[-1] - 1)))
    return st.one_of(choices)


@st.composite
def shapes(draw: Any, count: int) -> list[int]:
    """Some factors of `count`."""
    result = []
    while count > 1:
        factor = draw(st.sampled_from([f for f in range(2, count + 1) if count % f == 0]))
        result.append(factor)
        count //= factor
    return result or [1]


def apply(x: torch.Tensor, step: Any) -> torch.Tensor:
    match step:
        case ("unsqueeze", dim):
            return x.unsqueeze(dim)
        case ("squeeze",):
            return x.squeeze()
        case ("permute", order):
            return x.permute(*order)
        case ("reshape", size):
            return x.reshape(size)
        case ("slice", dim, start, by):
            return x[(slice(None),) * dim + (slice(start, None, by),)]
        case ("select", dim, at):
            return x.select(dim, at)
        case ("flip", dim):
            return x.flip(dim)
        case ("roll", dim, by):
            return x.roll(by, dim)
        case ("repeat", dim):
            return x.repeat(*(2 if d == dim else 1 for d in range(x.dim())))
        case ("expand", count):
            return x.unsqueeze(0).expand(count, *x.size())
        case ("diagonal", offset):
            return x.diagonal(offset, -2, -1)
    raise AssertionError(step)


@settings(max_examples=80, deadline=None)
@given(chains(), st.booleans())
def test_view_chains(chain: tuple[list[int], list[Any]], pending: bool) -> None:
    size, steps = chain

    def f(x: torch.Tensor) -> Any:
        y = x * 2 + 1 if pending else x
        for step in steps:
            y = apply(y, step)
        return y + 1, y.sum(), y

    check(f, torch.arange(math.prod(size), dtype=torch.float32).reshape(size))


def test_a_reshape_of_permuted_memory_copies() -> None:
    check(lambda x: x.t().reshape(-1), torch.randn(3, 4))


def test_views_of_inputs_with_an_offset() -> None:
    check(lambda x: (x * 2, x[1:].t() + 1, x.as_strided((2, 2), (1, 2), x.storage_offset())), torch.randn(6, 4)[2:, 1:])


def test_as_strided_of_a_pending_value() -> None:
    check(lambda x: (x * 2).as_strided((3, 2), (1, 4), 2), torch.randn(3, 4))


def test_views_without_elements() -> None:
    check(lambda x: (x.reshape(0, 3), (x + 1).t().reshape(3, 0) * 2, x.sum(0), x.sum(1)), torch.randn(0, 6))
