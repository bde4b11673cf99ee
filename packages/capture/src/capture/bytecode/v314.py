"""CPython 3.14, where that is not as 3.13: loads may borrow, an iterator is popped by an operation of its own, items are a BINARY_OP, a call
with packed arguments has a place for those by name in any case."""

from __future__ import annotations

from dataclasses import replace

from capture.bytecode import v313
from capture.bytecode.instruction import Instruction


def _end_for() -> list[Instruction]:
    return [Instruction("END_FOR"), Instruction("POP_ITER")]


DIALECT = replace(
    v313.DIALECT,
    version=(3, 14),
    # What borrows from a local must be gone before that changes. The compiler has seen to it; code made of its pieces may not.
    read_as={"LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_LOAD_FAST"},
    subscript=("BINARY_OP", 26),
    end_for=_end_for,
    places_apart=True,
)
