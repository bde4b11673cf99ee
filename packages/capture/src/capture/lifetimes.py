"""The locals of a code at each of its operations: which may be read later, and which then only hold what they have.

In: code objects. Out: names. Asked for at each graph break, and told once.
"""

from __future__ import annotations

from types import CodeType

from .bytecode import argument_names, bindings, decode, liveness
from .identity_map import IdentityMap


class Lifetimes:
    """Of one code, by the index of an operation: the names that may be ``read`` from there on, cells among them, and those of the others
    that may ``hold`` something until they get another value or the frame ends."""

    def __init__(self, code: CodeType) -> None:
        instructions = decode(code)
        self.read = liveness(instructions)
        cells = frozenset((*code.co_cellvars, *code.co_freevars))
        bound = bindings(instructions, [name for name in argument_names(code) if name not in cells])
        self.hold = [names - read - cells for names, read in zip(bound, self.read, strict=True)]


_known: IdentityMap[CodeType, Lifetimes] = IdentityMap()


def lifetimes_of(code: CodeType) -> Lifetimes:
    """Those of a code, found once."""
    found = _known.get(code)
    if found is None:
        found = _known[code] = Lifetimes(code)
    return found
