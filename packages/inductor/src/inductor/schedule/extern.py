"""Extern calls that can write into memory the planner gives them.

Flows in: an `ExternOp`. Flows out: the `out=` function to call instead, if there is one that does the same.
"""

from __future__ import annotations

from typing import Any

from inductor._torch import OpOverload
from inductor.ir.program import ExternOp
from symshapes import facts_if_operator

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
    """The torch function that does what an `OpOverload` does, or None."""
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


def _is_default_overload(target: Any) -> bool:
    return isinstance(target, OpOverload) and target._overloadname == "default"


def returns_fresh(op: ExternOp) -> bool:
    """Whether the results' memory is ours alone."""
    facts = facts_if_operator(op.target)
    return facts is not None and facts.fresh
