"""CPython 3.11: calls are PUSH_NULL, PRECALL and CALL; every jump names its direction."""

from __future__ import annotations

from collections.abc import Sequence

from capture.bytecode.dialect import Dialect
from capture.bytecode.instruction import Instruction

_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")
_TO_BACKWARD = {f"POP_JUMP_FORWARD_IF_{c}": f"POP_JUMP_BACKWARD_IF_{c}" for c in _CONDITIONS}
_TO_FORWARD = {there: here for here, there in _TO_BACKWARD.items()}


def _push_callable(load: Sequence[Instruction]) -> list[Instruction]:
    return [Instruction("PUSH_NULL"), *load]


def _call(count: int, kw_names: tuple[str, ...]) -> list[Instruction]:
    names = [Instruction("KW_NAMES", argval=kw_names)] if kw_names else []
    return [*names, Instruction("PRECALL", count), Instruction("CALL", count)]


def _make_closure() -> list[Instruction]:
    return [Instruction("MAKE_FUNCTION", 8)]


DIALECT = Dialect(
    version=(3, 11),
    flag_bits={"LOAD_GLOBAL": 1},
    compare_shift=0,
    compare_hints={},
    compare_to_bool=0,
    read_as={},
    fused={},
    load_closure="LOAD_CLOSURE",
    forward={**_TO_FORWARD, "JUMP_BACKWARD": "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD"},
    backward={**_TO_BACKWARD, "JUMP_FORWARD": "JUMP_BACKWARD"},
    inverse={},
    null_beneath=True,
    push_callable=_push_callable,
    call=_call,
    subscript=("BINARY_SUBSCR", None),
    jumps_test_bools=False,
    pop_jump={c.lower(): f"POP_JUMP_FORWARD_IF_{c}" for c in _CONDITIONS},
    end_for=list,
    send_pops=True,
    places_apart=False,
    make_closure=_make_closure,
)
