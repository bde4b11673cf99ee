"""Containers from outside that the program puts something into, and has not looked at: what is in them counts for nothing until it does.

In: what an element or key is. Out: whether putting it in asks nothing of the program, nor of what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .base import Interpreter, Variable
from .constants import CONSTANT_TYPES, Constant
from .numbers import Symbolic
from .placeholders import Lazy, resolved
from .reconstruction import Emitter, method_of
from .sequences import Tuple


def hashes_plainly(m: Interpreter, key: Variable) -> bool:
    """Whether a key is of a kind that hashes without asking the program; which one it is need not be known. Guards what it is."""
    key = resolved(key)
    if isinstance(key, Lazy):
        if type(key.value) not in CONSTANT_TYPES:
            return False
        m.guards.of_type(key.source, type(key.value))
        return True
    if isinstance(key, Tuple) and key.cls is tuple:
        return all(hashes_plainly(m, part) for part in key.items)
    return isinstance(key, (Constant, Symbolic))


class Unseen:
    """What was not looked at has none of the attributes `_content` until one of them is asked for: `_see` then gives it all."""

    _content: tuple[str, ...] = ()
    _see: Callable[[Any], None] | None = None
    """Takes the variable: one that it held would be in a cycle with it, and the machine with them."""

    def __getattr__(self, name: str) -> Any:
        if name not in self._content or self._see is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._see(self)
        self._see = None
        self._looked()
        return getattr(self, name)

    def _looked(self) -> None:
        """What the program put into it meanwhile is there, too."""
        raise NotImplementedError


class UnseenElements(Unseen, Variable):
    """One that elements were put into."""

    _put_in: str
    """The method that puts many."""
    _more: list[Variable]
    cls: type

    def written(self) -> Iterable[Variable]:
        return super().written() if self._see is None else list(self._more)

    def replay(self, e: Emitter) -> None:
        if self._see is None:
            super().replay(e)
        else:
            e.call_with_list(method_of(self.cls, self._put_in), self, self._more)
