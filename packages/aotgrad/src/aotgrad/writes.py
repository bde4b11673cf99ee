"""Writes to inputs that a compiler may take over: its graph computes the new content in the input's memory, and no copy follows.

In: a graph to be compiled and the program's `Signature`. Out: what the graph's output node offers, and what a compiled graph does of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import fx

from aotgrad.alias import Signature
from aotgrad.partition import Saved


def offer_writes(
    module: fx.GraphModule,
    signature: Signature,
    kept: Sequence[int] | None = None,
    saved: Iterable[Sequence[Saved]] = (),
) -> dict[int, int]:
    """Which results of the graph are the new content of which of its inputs, both by position: its output node says so in
    `meta["writes"]`. Not what has a gradient, which autograd has to see as a copy.

    Args:
        kept: the program's inputs that are the graph's, if not all.
        saved: what is kept for backwards. That stays what it was when the forward ended: neither are inputs among it written to,
            nor is what the program may write to again among it.
    """
    kept_values = [one for values in saved for one in values]
    inputs = {one.input for one in kept_values}
    results = {one.result for one in kept_values}
    places = {index: place for place, index in enumerate(range(signature.input_count) if kept is None else kept)}
    writes = {
        mutation.result: places[mutation.input]
        for mutation in signature.mutations
        if not mutation.grad
        and mutation.input in places
        and mutation.input not in inputs
        and mutation.result not in results
    }
    if writes:
        module.graph.output_node().meta["writes"] = writes
    return writes


def written_by(compiled: Any, offered: Mapping[int, int]) -> frozenset[int]:
    """The results that a compiled graph has written by itself: those of its `written_results` that were offered to it."""
    return frozenset(offered) & frozenset(getattr(compiled, "written_results", ()))
