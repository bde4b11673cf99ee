"""Minimum cuts against trying every cut."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotgrad.partition.flow import Network

EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=14)


def network(edges) -> Network:
    made = Network()
    for _ in range(6):
        made.vertex()
    for tail, head, capacity in edges:
        made.edge(tail, head, capacity)
    return made


def weight(edges, behind) -> int:
    return sum(c for tail, head, c in edges if tail not in behind and head in behind)


@settings(deadline=None, derandomize=True)
@given(EDGES)
def test_cut_is_smallest_and_nearest_to_the_sink(edges):
    source, sink = 0, 5
    cuts = [{sink, *inner} for size in range(5) for inner in itertools.combinations(range(1, 5), size)]
    best = min(weight(edges, cut) for cut in cuts)
    behind = network(edges).sink_side(source, sink)
    assert source not in behind and weight(edges, behind) == best
    assert len(behind) == min(len(cut) for cut in cuts if weight(edges, cut) == best)


def test_unlimited_flow():
    made = network([])
    made.edge(0, 5, math.inf)
    with pytest.raises(ValueError, match="unlimited"):
        made.sink_side(0, 5)
