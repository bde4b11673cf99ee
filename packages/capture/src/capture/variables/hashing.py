"""What a key of a dictionary or an element of a set is hashed as, and what the interpreter says of one that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Hashable

from .base import Interpreter, SymbolicRaise, Variable
from .lookups import full_name

#: What a value is to be that is hashed.
DICT_KEY, SET_ELEMENT = "a dict key", "a set element"
#: Whether it says for what it wanted the hash.
_SAYS_WHAT_FOR = sys.version_info >= (3, 14)


def hash_as(m: Interpreter, value: Variable, use: str) -> Hashable:
    """What a value is hashed as, that is to be ``use``, one of the above."""
    try:
        return value.hash_key(m)
    except SymbolicRaise as raised:
        error = raised.exception
        if not _SAYS_WHAT_FOR or error.python_type() is not TypeError:
            raise
    said = m.builder.to_python(m.operators.text(error, "str"))
    m.errors.throw(TypeError, f"cannot use {full_name(value.python_type())!r} as {use} ({said})")
