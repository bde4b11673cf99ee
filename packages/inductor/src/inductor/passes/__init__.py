"""Rewrites as data: rows of pattern, condition and result, with a name and a reason each, over ATen graphs and over loop bodies.

Flows in: a functional graph, and operations that lowerings record. Flows out: the same in simpler terms, bit for bit; and rewrites
besides, which each say what they keep.
"""

from inductor.passes.bodies import BodyPass, BodyRewriter
from inductor.passes.body_rows import BODY_PASSES
from inductor.passes.draw_rows import draw_in_kernels
from inductor.passes.frozen import freeze, hold
from inductor.passes.graph_rows import GRAPH_PASSES
from inductor.passes.graphs import GraphPass, rewrite_graph
from inductor.passes.layouts import channels_last
from inductor.passes.patterns import BodyMatch, GraphMatch, Var, call_of, op_of
from inductor.passes.row_major import row_major
from inductor.passes.selection import Selection, select
from inductor.passes.sums import start_from_addends

_SHIPPED = select()


def changed() -> bool:
    """Whether a program has put passes of its own there, or taken some away."""
    return Selection(tuple(GRAPH_PASSES), tuple(BODY_PASSES)) != _SHIPPED


__all__ = [
    "BODY_PASSES",
    "GRAPH_PASSES",
    "BodyMatch",
    "BodyPass",
    "BodyRewriter",
    "GraphMatch",
    "GraphPass",
    "Selection",
    "Var",
    "call_of",
    "changed",
    "channels_last",
    "draw_in_kernels",
    "freeze",
    "hold",
    "op_of",
    "rewrite_graph",
    "row_major",
    "select",
    "start_from_addends",
]
