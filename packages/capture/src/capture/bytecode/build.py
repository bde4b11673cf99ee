"""Snippets of bytecode that read the same on every version; each returns instructions to put in a list.

Locals and cells are addressed by name; `assemble` finds their place.
"""

from __future__ import annotations

import opcode
from collections.abc import Sequence
from typing import Any

from capture.bytecode.dialect import current
from capture.bytecode.instruction import Instruction


def load_const(value: Any) -> list[Instruction]:
    """Push any object, held by the code; tensors and functions too."""
    return [Instruction("LOAD_CONST", argval=value)]


def load_fast(name: str) -> list[Instruction]:
    """Push a local that is bound."""
    return [Instruction("LOAD_FAST", argval=name)]


def store_fast(name: str) -> list[Instruction]:
    """Pop into a local."""
    return [Instruction("STORE_FAST", argval=name)]


def delete_fast(name: str) -> list[Instruction]:
    """Unbind a local that is bound."""
    return [Instruction("DELETE_FAST", argval=name)]


def load_deref(name: str) -> list[Instruction]:
    """Push the content of a cell or free variable."""
    return [Instruction("LOAD_DEREF", argval=name)]


def delete_deref(name: str) -> list[Instruction]:
    """Empty a cell or free variable that has content."""
    return [Instruction("DELETE_DEREF", argval=name)]


def store_deref(name: str) -> list[Instruction]:
    """Pop into a cell or free variable."""
    return [Instruction("STORE_DEREF", argval=name)]


def load_closure(name: str) -> list[Instruction]:
    """Push the cell itself."""
    return [Instruction("LOAD_CLOSURE", argval=name)]


def load_global(name: str) -> list[Instruction]:
    """Push a global or builtin of the frame."""
    return [Instruction("LOAD_GLOBAL", 0, name)]


def load_attr(name: str) -> list[Instruction]:
    """Replace the top by its attribute."""
    return [Instruction("LOAD_ATTR", 0, name)]


def store_attr(name: str) -> list[Instruction]:
    """Pop an object, then a value: object.name = value."""
    return [Instruction("STORE_ATTR", argval=name)]


def add() -> list[Instruction]:
    """Pop a value, then another; push the other + value."""
    return [Instruction("BINARY_OP", 0)]


def binary_subscr() -> list[Instruction]:
    """Pop a key, then a container; push container[key]."""
    return [Instruction(*current().subscript)]


def store_subscr() -> list[Instruction]:
    """Pop a key, a container, a value: container[key] = value."""
    return [Instruction("STORE_SUBSCR")]


def store_global(name: str) -> list[Instruction]:
    """Pop a value into a global of the frame's."""
    return [Instruction("STORE_GLOBAL", argval=name)]


def push_callable(load: Sequence[Instruction]) -> list[Instruction]:
    """What must be on the stack before a call's arguments; `load` pushes the callable."""
    return current().push_callable(load)


def call(count: int, kw_names: tuple[str, ...] = ()) -> list[Instruction]:
    """Call with `count` arguments on the stack, the last of them named by `kw_names`; pushes the result."""
    return current().call(count, kw_names)


def call_function(
    load: Sequence[Instruction], *arguments: Sequence[Instruction], kw_names: tuple[str, ...] = ()
) -> list[Instruction]:
    """The whole call: callable, arguments (the last ones named by `kw_names`), result."""
    pushed = [each for argument in arguments for each in argument]
    return [*push_callable(load), *pushed, *call(len(arguments), kw_names)]


def make_closure() -> list[Instruction]:
    """Pop a code object, then the tuple of its cells; push a function of both."""
    return current().make_closure()


def make_function() -> list[Instruction]:
    """Pop a code object without free variables; push a function of it and the frame's globals."""
    return [Instruction("MAKE_FUNCTION", 0)]


def build_tuple(count: int) -> list[Instruction]:
    """Pop `count` values, push them as a tuple."""
    return [Instruction("BUILD_TUPLE", count)]


def build_list(count: int) -> list[Instruction]:
    """Pop `count` values, push them as a list."""
    return [Instruction("BUILD_LIST", count)]


def build_set(count: int) -> list[Instruction]:
    """Pop `count` values, push them as a set."""
    return [Instruction("BUILD_SET", count)]


def build_map(count: int) -> list[Instruction]:
    """Pop `count` pairs of key and value, push a dict."""
    return [Instruction("BUILD_MAP", count)]


def unpack_sequence(count: int) -> list[Instruction]:
    """Pop a sequence of exactly `count`, push its items, the first on top."""
    return [Instruction("UNPACK_SEQUENCE", count)]


def pop() -> list[Instruction]:
    """Drop the top."""
    return [Instruction("POP_TOP")]


def copy(depth: int = 1) -> list[Instruction]:
    """Push the value `depth` from the top (1 is the top itself) once more."""
    return [Instruction("COPY", depth)]


def swap(depth: int) -> list[Instruction]:
    """Exchange the top with the value `depth` from the top."""
    return [Instruction("SWAP", depth)]


def jump(target: Instruction) -> list[Instruction]:
    """Go on at `target`, before or after."""
    return [Instruction("JUMP_FORWARD", target=target)]


def pop_jump_if(condition: str, target: Instruction) -> list[Instruction]:
    """Pop a value; go on at `target` if it is "true", "false", "none" or "not_none"."""
    dialect = current()
    test = [Instruction("TO_BOOL")] if dialect.jumps_test_bools and condition in ("true", "false") else []
    return [*test, Instruction(dialect.pop_jump[condition], target=target)]


def return_value() -> list[Instruction]:
    """Return the top."""
    return [Instruction("RETURN_VALUE")]


def compare(operator: str) -> list[Instruction]:
    """Pop b, then a; push a `operator` b, for < <= == != > >=."""
    dialect = current()
    arg = opcode.cmp_op.index(operator) << dialect.compare_shift | dialect.compare_hints.get(operator, 0)
    return [Instruction("COMPARE_OP", arg, operator)]


def prologue(cellvars: Sequence[str], freevars: Sequence[str]) -> list[Instruction]:
    """What a function's code must start with: its free variables, its own cells, RESUME."""
    free = [Instruction("COPY_FREE_VARS", len(freevars))] if freevars else []
    return [*free, *(Instruction("MAKE_CELL", argval=name) for name in cellvars), Instruction("RESUME", 0)]
