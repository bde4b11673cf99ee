"""Extern calls that can write into memory the planner gives them.

Flows in: an `ExternOp`. Flows out: the `out=` function to call instead, if there is one that does the same.
"""

from __future__ import annotations

from inductor.ir.program import ExternOp

OUT_FUNCTIONS: dict[str, str] = {
    "aten::mm": "torch.mm",
    "aten::bmm": "torch.bmm",
    "aten::addmm": "torch.addmm",
    "aten::baddbmm": "torch.baddbmm",
    "aten::mv": "torch.mv",
    "aten::dot": "torch.dot",
}
"""ATen function (its default overload) to the torch function with an `out=`; those cost half a dispatcher call."""


def writes_into(op: ExternOp) -> str | None:
    """The torch function that computes `op` into an `out=` tensor, or None."""
    name = getattr(getattr(op.target, "_schema", None), "name", "")
    if getattr(op.target, "_overloadname", None) != "default" or len(op.writes) != 1 or op.writes[0] is None:
        return None
    return OUT_FUNCTIONS.get(name)
