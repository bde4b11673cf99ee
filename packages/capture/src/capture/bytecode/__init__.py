"""Code objects as lists of instructions and back: `decode`, `assemble`, `liveness`, and snippets in `build`."""

from capture.bytecode.assemble import assemble
from capture.bytecode.decode import argument_count, argument_names, decode, scan
from capture.bytecode.flow import (
    bindings,
    falls_through,
    is_jump,
    liveness,
    shift_handlers,
    stack_depths,
    stack_effect,
    stack_size,
)
from capture.bytecode.instruction import BytecodeError, Handler, Instruction, Positions

__all__ = [
    "BytecodeError",
    "Handler",
    "Instruction",
    "Positions",
    "argument_count",
    "argument_names",
    "assemble",
    "bindings",
    "decode",
    "falls_through",
    "is_jump",
    "liveness",
    "scan",
    "shift_handlers",
    "stack_depths",
    "stack_effect",
    "stack_size",
]
