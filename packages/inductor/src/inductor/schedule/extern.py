"""Extern calls that can write into memory the planner gives them.

Flows in: an `ExternOp`. Flows out: the `out=` function to call instead, if there is one that does the same, or the operator
that does it in the memory of its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy

from inductor._torch import OpOverload
from inductor.ir.program import Buffer, ExternOp, StridedView
from symshapes import facts_if_operator, facts_of

OUT_FUNCTIONS: dict[str, str] = {
    f"aten::{name}": f"torch.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot")
}
"""ATen function (its default overload) to the torch function with an `out=`; those cost half a dispatcher call."""

DIRECT_FUNCTIONS: dict[str, str] = {
    f"aten::{name}": f"torch.{name}"
    for name in (
        "convolution",
        "cumsum",
        "embedding",
        "gather",
        "index_select",
        "native_batch_norm",
        "native_group_norm",
        "native_layer_norm",
        "sort",
        "topk",
    )
}
"""ATen functions whose default overload the torch function of the name is, with the same arguments: a call of it spends a
microsecond less on finding the kernel."""


def direct_function(target: Any) -> str | None:
    """The function that does what an `OpOverload` does, as an expression, or None."""
    facts = facts_if_operator(target)
    if facts is not None and facts.function is not None:
        return f"__import__({facts.function.__module__!r}, fromlist=[None]).{facts.function.__name__}"
    return DIRECT_FUNCTIONS.get(target._schema.name) if _is_default_overload(target) else None


def takes_any_strides(target: Any) -> bool:
    """Whether a call doesn't care for the strides of dimensions of size 1: products of matrices, which look only at what they
    walk over."""
    return isinstance(target, OpOverload) and target._schema.name in OUT_FUNCTIONS


def writes_into(op: ExternOp) -> str | None:
    """The torch function that computes `op` into an `out=` tensor, or None."""
    if not _is_default_overload(op.target) or len(op.writes) != 1 or op.writes[0] is None:
        return None
    return OUT_FUNCTIONS.get(op.target._schema.name)


def begins_with(op: ExternOp) -> tuple[tuple[str, StridedView], ...]:
    """Of a call that can work in the memory of its arguments: pairs of a written buffer and the argument whose content it starts
    with, one for each of the last results; nothing for other calls."""
    facts = facts_if_operator(op.target)
    if facts is None or facts.in_place is None:
        return ()
    sources = [written.of(op.args, op.kwargs) for written in facts_of(facts.in_place).written]
    names = op.writes[len(op.writes) - len(sources) :]
    pairs = tuple((name, source) for name, source in zip(names, sources, strict=True) if name is not None)
    return pairs if len(pairs) == len(sources) else ()


def in_place(op: ExternOp, buffers: Mapping[str, Buffer]) -> ExternOp:
    """The call that does the same in its arguments' memory, which by now is that of the buffers that `begins_with` names."""
    target = facts_of(op.target).in_place
    places = facts_of(target).written
    args = list(op.args)
    own, names = op.writes[: len(op.writes) - len(places)], op.writes[len(op.writes) - len(places) :]
    for name, written in zip(names, places, strict=True):
        assert name is not None and written.position is not None
        args[written.position] = StridedView(name, buffers[name].size, buffers[name].stride, sympy.Integer(0))
    return replace(op, writes=own, target=target, args=tuple(args))


def _is_default_overload(target: Any) -> bool:
    return isinstance(target, OpOverload) and target._overloadname == "default"


def returns_fresh(op: ExternOp) -> bool:
    """Whether the results' memory is ours alone."""
    facts = facts_if_operator(op.target)
    return facts is not None and facts.fresh
