"""The recorder of lowerings: masks keep inlined values apart, and unused operations go."""

from __future__ import annotations

import sympy
import torch

from inductor.ir.recording import LoopRecorder, used
from inductor.ops import install, ops

I0 = sympy.Symbol("i0", integer=True, nonnegative=True)


def recorder() -> LoopRecorder:
    return LoopRecorder(lambda name: torch.int64 if name == "index" else torch.float32, {I0: sympy.Integer(8)})


def test_unused_operations_go_and_indirect_ones_stay_with_their_loads() -> None:
    with install(recorder()) as rec:
        ops.exp(ops.load("x", I0))
        place = ops.indirect(ops.load("index", I0), 8)
        ops.store("y", I0, ops.load("x", place))
    assert [op.opcode for op in used(rec.recorded)] == ["load", "indirect", "load", "store"]


def test_inlined_values_under_a_mask_are_not_taken_outside_it() -> None:
    with install(recorder()) as rec:
        mask = ops.lt(ops.load("x", I0), ops.constant(0.0, torch.float32))
        rec.inlined["key"] = "outside"

        def inside() -> object:
            assert "key" not in rec.inlined
            rec.inlined["key"] = "inside"
            return ops.load("x", I0)

        ops.masked(mask, inside, 1.0)
    assert rec.inlined["key"] == "outside"
