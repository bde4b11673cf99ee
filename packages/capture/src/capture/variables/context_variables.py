"""Context variables: ``get`` reads what the context has, guarded; what the frame sets is set after the graph, but for what it took back.

``copy_context`` and what runs in other contexts is made for real: a context shares what it holds with nothing that is seen here.
"""

from __future__ import annotations

import builtins
import contextvars
from collections.abc import Iterable
from typing import Any

import torch

from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.labels import HEAP_TYPE
from capture.sources import Applied, Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import BoundBuiltin, Constant, Known
from .reconstruction import CannotReconstruct, Emitter

_UNSET = object()


def held_by(variable: contextvars.ContextVar[Any], index: int) -> Any:
    """What the current context has for a variable; not its default."""
    return variable.get(_UNSET)


def default_of(variable: contextvars.ContextVar[Any], index: int) -> Any:
    """What a variable has where no context has anything for it."""
    return contextvars.Context().run(variable.get)


class ContextVariable(Known):
    """A ``contextvars.ContextVar``, made outside. ``sets`` are the frame's own that it did not take back, each with its token."""

    def __init__(self, value: contextvars.ContextVar[Any]) -> None:
        super().__init__(value)
        self.sets: list[Token] = []
        self._outside: tuple[Variable | None] | None = None

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "name":
            return Constant(self.value.name)
        if name in ("get", "set", "reset"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if kwargs or len(args) > 1 or (name != "get" and not args):
            raise Unsupported(f"method {name!r} of a context variable with other arguments")
        if m.effects.later.active:
            raise Unsupported(
                "a backward or hook that asks a context variable, which may hold another value when it runs"
            )
        if name == "get":
            return self._get(m, args)
        return self._set(m, args[0]) if name == "set" else self._reset(m, args[0].realize(m))

    def _held(self, m: Interpreter) -> Variable | None:
        """What the context has for it as the frame has it now."""
        return self.sets[-1].value if self.sets else self._from_outside(m)

    def _from_outside(self, m: Interpreter) -> Variable | None:
        if self._outside is None:
            source = Applied(self._place(), held_by, 0)
            value = held_by(self.value, 0)
            if value is _UNSET:
                m.guards.add(source, GuardKind.ID, _UNSET)
            self._outside = (None if value is _UNSET else m.builder.wrap(value, source).realize(m),)
        return self._outside[0]

    def _place(self) -> Source:
        return self.source or Const(self.value)

    def _get(self, m: Interpreter, args: Args) -> Variable:
        held = self._held(m)
        if held is not None:
            return held
        if args:
            return args[0]
        try:
            default = default_of(self.value, 0)
        except LookupError:
            m.errors.throw_value(LookupError, [self])
        return m.builder.wrap(default, Applied(self._place(), default_of, 0))

    def _set(self, m: Interpreter, value: Variable) -> Variable:
        if not _is_seen(value.realize(m).python_type()):
            raise Unsupported("a context variable that gets what code written in C may ask it for")
        token: Token = m.effects.created(Token(self, value, self._held(m), self.sets[-1] if self.sets else None))
        self.sets.append(token)
        m.effects.mutated(self)
        return token

    def _reset(self, m: Interpreter, token: Variable) -> Variable:
        if not isinstance(token, Token) or not self.sets or self.sets[-1] is not token:
            raise Unsupported("a context variable put back by a token of another")
        self.sets.pop()
        token.used = True
        m.effects.mutated(self)
        return Constant(None)

    # It is set as its tokens are made.

    def written(self) -> Iterable[Variable]:
        return self.sets

    def replay(self, e: Emitter) -> None:
        return None


class Token(Variable):
    """What a variable gives that the frame set: to be put back to what it had before. ``below`` is the frame's one before it."""

    def __init__(
        self, variable: ContextVariable, value: Variable, before: Variable | None, below: Token | None
    ) -> None:
        self.variable = variable
        self.value = value
        self.before = before
        self.below = below
        self.used = False

    def python_type(self) -> type:
        return contextvars.Token

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "var":
            return self.variable
        if name == "old_value":
            return m.builder.known(contextvars.Token.MISSING) if self.before is None else self.before
        return super().attribute(m, name)

    def made_of(self) -> Iterable[Variable]:
        if self.used:
            raise CannotReconstruct(self, "a token of a context variable that was put back by it")
        yield self.variable
        yield self.value
        if self.below is not None:
            yield self.below
        elif self.before is not None:
            yield self.before

    def reconstruct(self, e: Emitter) -> None:
        first = self.below or self.before
        if first is not None:  # what the context had is read, and what was set before is set, before this is
            e.load(first)
            e.emit(build.pop())
        e.call(contextvars.ContextVar.set, [self.variable, self.value])


def _is_seen(kind: type) -> bool:
    """Whether all that asks for such values is evaluated: not for those that only code written in C makes use of, as numpy's settings are."""
    written = bool(kind.__flags__ & HEAP_TYPE) or getattr(builtins, kind.__name__, None) is kind
    return written or kind is type(None) or issubclass(kind, torch.Tensor)


@builds(contextvars.ContextVar)
def _build_context_variable(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(ContextVariable(value), source)
