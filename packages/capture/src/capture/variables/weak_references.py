"""Weak references to objects that the frame made: they tell of these while something in the program is seen to hold them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from capture.errors import SkipFrame, Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .lookups import shown_type
from .objects import Object


class OwnReference(Variable):
    """``weakref.ref`` of an object that the frame made: it lives for as long as something in the program is seen to hold it."""

    holds_nothing = True

    def __init__(self, referent: Variable) -> None:
        self.referent = referent

    def python_type(self) -> type:
        return weakref.ref

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if args or kwargs:
            raise Unsupported("call of a weak reference with arguments")
        if not m.state.holds(self.referent):
            raise SkipFrame("it asks for an object of its own that only a weak reference may refer to")
        return self.referent

    def made_of(self) -> Iterable[Variable]:
        # What holds the object after the frame, or behind a break, is not what holds it in the program.
        raise SkipFrame("it hands on a weak reference to an object of its own")


def own_reference(m: Interpreter, referent: Variable) -> Variable | None:
    """A plain weak reference to an object that the frame made; None to anything else. Raises ``TypeError`` where the class takes none."""
    own = referent.realize(m)
    if not isinstance(own, Object) or own.source is not None or own.payload is not None:
        return None
    if not own.cls.__weakrefoffset__:
        m.errors.throw(TypeError, f"cannot create weak reference to {shown_type(own.cls)!r} object")
    return m.effects.created(OwnReference(own))
