"""Writes to inputs that a compiler may take over: its graph computes the new content in the input's memory, and no copy follows.

In: a graph to be compiled and the program's `Signature`. Out: what the graph's output node offers, and what a compiled graph does of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from aotgrad.signature import Signature
from aotgrad.views import view_results

if TYPE_CHECKING:
    from aotgrad.partition import Saved


def offer_writes(
    module: fx.GraphModule,
    signature: Signature,
    kept: Sequence[int] | None = None,
    saved: Iterable[Sequence[Saved]] | None = None,
) -> dict[int, int]:
    """Which results of the graph are the new content of which of its inputs, both by position: its output node says so in
    `meta["writes"]`. Not what has a gradient, which autograd has to see as a copy.

    Args:
        kept: the program's inputs that are the graph's, if not all.
        saved: what is kept for backwards, where there are any. Then the graph's inputs are the program's, whose versions would tell of all
            that is written to them; and what is kept stays what it was when the forward ended: neither are inputs among it written to,
            nor is what the program may write to again among it.
    """
    kept_values = [one for values in saved or () for one in values]
    inputs = {one.input for one in kept_values}
    results = {one.result for one in kept_values}
    places = {index: place for place, index in enumerate(range(signature.input_count) if kept is None else kept)}
    writes = {
        mutation.result: places[mutation.input]
        for mutation in signature.mutations
        if not mutation.grad
        and (mutation.counted or saved is None)
        and mutation.input in places
        and mutation.input not in inputs
        and mutation.result not in results
    }
    if writes:
        module.graph.output_node().meta["writes"] = writes
    return writes


def ask_for_shared(module: fx.GraphModule, apart: Sequence[int]) -> None:
    """Let the output node's `meta["apart"]` say which inputs may share memory with no other, since the program writes to them. A compiler
    whose compiled graph looks at that itself, at each call, gives it an attribute `tells_shared`; where it is not so such a graph does
    nothing and returns None.

    Args:
        apart: the tensors that the program writes to, by position.
    """
    if apart and not view_results(module):
        module.graph.output_node().meta["apart"] = tuple(apart)


def written_by(compiled: Any, offered: Iterable[int]) -> frozenset[int]:
    """The results that a compiled graph has written by itself: those of its `written_results` that were offered to it."""
    return frozenset(offered) & frozenset(getattr(compiled, "written_results", ()))
