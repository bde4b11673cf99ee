"""Blocks of torch's that are made in the frame and do nothing but enter and leave something: they are not entered wherever the graph ends."""

from __future__ import annotations

from collections.abc import Iterable

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant


class Block(Variable):
    """One of them; `told` says in reasons what it is."""

    manages_context = True
    told: str

    def enter(self, m: Interpreter) -> None:
        """It is entered."""
        raise NotImplementedError

    def leave(self, m: Interpreter) -> None:
        """It is left, by an exception or not."""
        raise NotImplementedError

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__enter__" and not args and not kwargs:
            self.enter(m)
        elif name == "__exit__" and len(args) == 3 and not kwargs:
            self.leave(m)
        else:
            raise Unsupported(f"{name} of {self.told}")
        return Constant(None)

    def made_of(self) -> Iterable[Variable]:
        return ()
