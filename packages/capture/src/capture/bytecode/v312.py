"""CPython 3.12: no PRECALL, conditional jumps only go forward, a FOR_ITER's target is an END_FOR."""

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
    return [Instruction("PUSH_NULL"), *load]


def _call(count: int, kw_names: tuple[str, ...]) -> list[Instruction]:
    names = [Instruction("KW_NAMES", argval=kw_names)] if kw_names else []
    return [*names, Instruction("CALL", count)]


def _end_for() -> list[Instruction]:
    return [Instruction("END_FOR")]


def _make_closure() -> list[Instruction]:
    return [Instruction("MAKE_FUNCTION", 8)]


DIALECT = Dialect(
    version=(3, 12),
    flag_bits={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    compare_shift=4,
    # Which outcomes (unordered 1, less 2, greater 4, equal 8) make the comparison true: the specialiser's mask.
    compare_hints={"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12},
    compare_to_bool=0,
    read_as={},
    fused={},
    load_closure="LOAD_CLOSURE",
    forward={"JUMP_BACKWARD": "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD"},
    backward={"JUMP_FORWARD": "JUMP_BACKWARD"},
    inverse=_INVERSE,
    null_beneath=True,
    push_callable=_push_callable,
    call=_call,
    subscript=("BINARY_SUBSCR", None),
    jumps_test_bools=False,
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
