"""CPython 3.13: the callable lies beneath the NULL, names of keywords on the stack, jumps test bools, locals go in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from capture.bytecode.dialect import Dialect
from capture.bytecode.instruction import Instruction

_INVERSE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}


def _push_callable(load: Sequence[Instruction]) -> list[Instruction]:
    return [*load, Instruction("PUSH_NULL")]


def _call(count: int, kw_names: tuple[str, ...]) -> list[Instruction]:
    if kw_names:
        return [Instruction("LOAD_CONST", argval=kw_names), Instruction("CALL_KW", count)]
    return [Instruction("CALL", count)]


def _end_for() -> list[Instruction]:
    return [Instruction("END_FOR"), Instruction("POP_TOP")]


def _make_closure() -> list[Instruction]:
    return [Instruction("MAKE_FUNCTION"), Instruction("SET_FUNCTION_ATTRIBUTE", 8)]


DIALECT = Dialect(
    version=(3, 13),
    flag_bits={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    compare_shift=5,
    # Which outcomes (unordered 1, less 2, greater 4, equal 8) make the comparison true: the specialiser's mask.
    compare_hints={"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12},
    compare_to_bool=16,
    read_as={},
    fused={
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    },
    load_closure="LOAD_FAST",
    forward={"JUMP_BACKWARD": "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD"},
    backward={"JUMP_FORWARD": "JUMP_BACKWARD"},
    inverse=_INVERSE,
    null_beneath=False,
    push_callable=_push_callable,
    call=_call,
    subscript=("BINARY_SUBSCR", None),
    jumps_test_bools=True,
    pop_jump={
        "true": "POP_JUMP_IF_TRUE",
        "false": "POP_JUMP_IF_FALSE",
        "none": "POP_JUMP_IF_NONE",
        "not_none": "POP_JUMP_IF_NOT_NONE",
    },
    end_for=_end_for,
    send_pops=False,
    places_apart=False,
    make_closure=_make_closure,
)
