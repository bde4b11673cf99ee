"""``threading.Lock`` and ``RLock`` made in the frame: nobody else can hold them, so that none waits."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .reconstruction import CannotReconstruct, Emitter


class Lock(Variable):
    """A lock of the frame's own."""

    def __init__(self, cls: type, reentrant: bool) -> None:
        self.cls = cls
        self.reentrant = reentrant
        self.depth = 0

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if hasattr(self.cls, name):
            return BoundBuiltin(self, name)
        m.errors.throw(AttributeError, f"'{self.cls.__module__}.{self.cls.__name__}' object has no attribute {name!r}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        m.effects.activity += 1
        if name in ("acquire", "__enter__"):
            return self.acquire(m, [*args, *kwargs.values()])
        if name in ("release", "__exit__"):
            if not self.depth:
                words = "cannot release un-acquired lock" if self.reentrant else "release unlocked lock"
                m.errors.throw(RuntimeError, words)
            self.depth -= 1
            return Constant(None)
        if name == "locked":
            return Constant(self.depth > 0)
        raise Unsupported(f"{name} of a lock")

    def acquire(self, m: Interpreter, options: Args) -> Variable:
        """It is free, or the thread's own already; else it waits for ever, or as long as it is told."""
        if not self.depth or self.reentrant:
            self.depth += 1
            return Constant(True)
        if not options or m.operators.truth(options[0]):
            raise Unsupported("waiting for a lock")
        return Constant(False)

    def made_of(self) -> Iterable[Variable]:
        if self.depth:
            raise CannotReconstruct(self, "a lock that is held")
        return ()

    def reconstruct(self, e: Emitter) -> None:
        make = threading.RLock if self.reentrant else threading.Lock
        e.emit(build.push_callable(build.load_const(make)), build.call(0))


@handles(threading.Lock)
def _lock(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Lock(type(threading.Lock()), reentrant=False))


@handles(threading.RLock)
def _rlock(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Lock(type(threading.RLock()), reentrant=True))
