"""The names of a class statement's body, where scopes within see them: annotations, from 3.14 on, which are made when they are asked for.

In: the body's names. Out: what one stands for; once the class is made, by what the class has then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Variable
from .reconstruction import CannotReconstruct, Emitter


class ClassNames(Variable):
    """What is in the cell `__classdict__`: the dictionary of the body, and then of the class, which making it puts there."""

    def __init__(self, names: Mapping[str, Variable]) -> None:
        self._names = names
        self._owner: Variable | None = None
        self._made: type | None = None

    def owned_by(self, owner: Variable, made: type, entries: Mapping[str, Variable]) -> None:
        """The class is made, and has these entries."""
        self._owner, self._made, self._names = owner, made, entries

    def is_of(self, owner: Variable) -> bool:
        """Whether they are those of this class."""
        return self._owner is owner

    def find(self, name: str) -> Variable | None:
        """What a name stands for; None where it is not of the class."""
        found = self._names.get(name)
        if found is None and self._made is not None and name in self._made.__dict__:
            raise Unsupported(f"a scope within a class that sees {name!r} of that")
        return found

    def made_of(self) -> Iterable[Variable]:
        return () if self._owner is None else (self._owner,)

    def reconstruct(self, e: Emitter) -> None:
        raise CannotReconstruct(self, "the names of a class, which a scope within it sees")

    def fill_cell(self, e: Emitter) -> None:
        """Have the class made: that puts them into the cell they are in."""
        if self._owner is None:
            self.reconstruct(e)
        else:
            e.load(self._owner)
            e.emit(build.pop())
