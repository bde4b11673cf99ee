"""What differs between CPython versions, as one value per version; `current()` is the running interpreter's."""

from __future__ import annotations

import importlib.util
import opcode
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from capture.bytecode.instruction import Instruction
from symshapes import dataclass

_FILES = (re.fullmatch(r"v(\d)(\d+)\.py", name) for name in os.listdir(os.path.dirname(__file__)))
#: The versions that a file beside this one is about: ``v311.py`` and so on.
SUPPORTED = tuple(sorted((int(found[1]), int(found[2])) for found in _FILES if found))
_NAMES = [f"{major}.{minor}" for major, minor in SUPPORTED]
UNSUPPORTED_MESSAGE = f"capture supports CPython {', '.join(_NAMES[:-1])} and {_NAMES[-1]}"


@dataclass(frozen=True)
class Dialect:
    """Facts and snippets of one CPython version."""

    version: tuple[int, int]
    # Operations whose operand holds a name's index above some flag bits: how many bits.
    flag_bits: Mapping[str, int]
    # How far a COMPARE_OP's operator lies above its specialisation hints, and the hints of each operator.
    compare_shift: int
    compare_hints: Mapping[str, int]
    # The bit of a COMPARE_OP that makes its result a bool, which `decode` writes as a TO_BOOL of its own; 0: there is none.
    compare_to_bool: int
    # Operations that are another one with a promise of the compiler's, which `decode` forgets.
    read_as: Mapping[str, str]
    # Two operations on locals in one: `decode` takes them apart, `assemble` joins them again.
    fused: Mapping[str, tuple[str, str]]
    # What pushes a cell itself, which `decode` calls LOAD_CLOSURE.
    load_closure: str
    # For jumps that name their direction: the same jump the other way.
    forward: Mapping[str, str]
    backward: Mapping[str, str]
    # For conditional jumps that cannot go backward: the jump on the opposite condition.
    inverse: Mapping[str, str]
    # Whether the NULL (or self) of a call lies beneath its callable, and not above.
    null_beneath: bool
    # Snippets.
    push_callable: Callable[[Sequence[Instruction]], list[Instruction]]
    call: Callable[[int, tuple[str, ...]], list[Instruction]]
    subscript: tuple[str, int | None]  # pops a key, then a container; pushes the item
    # Whether jumps on "true" and "false" take nothing but bools, which a TO_BOOL makes.
    jumps_test_bools: bool
    pop_jump: Mapping[str, str]  # "true" | "false" | "none" | "not_none" -> opname
    end_for: Callable[[], list[Instruction]]  # what the target of a FOR_ITER starts with, passed at exhaustion
    # Whether a SEND whose iterator is exhausted takes that off the stack; else an END_SEND does.
    send_pops: bool
    # Whether the place of an exception, which a handler puts on the stack, is nothing that any other operation could push.
    places_apart: bool
    make_closure: Callable[[], list[Instruction]]  # pops a code, then its cells as a tuple; pushes the function


def special_methods() -> list[str]:
    """The methods that a LOAD_SPECIAL finds, by number, from 3.14; empty before."""
    return getattr(opcode, "_special_method_names", [])


@cache
def current() -> Dialect:
    """The running interpreter's dialect. Raises `RuntimeError` on a version whose bytecode is not known."""
    version = sys.version_info[:2]
    name = f"capture.bytecode.v{version[0]}{version[1]}"
    if sys.implementation.name != "cpython" or importlib.util.find_spec(name) is None:
        raise RuntimeError(f"{UNSUPPORTED_MESSAGE}; this is {sys.implementation.name} {version[0]}.{version[1]}")
    dialect: Dialect = importlib.import_module(name).DIALECT
    return dialect
