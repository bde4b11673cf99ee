"""Context variables: ``get`` reads what the context has, guarded; what the frame sets is set after the graph, but for what it took back.

Contexts that the frame makes, and nobody else gets to see, hold what their variables have in them; the context that the frame runs in is
not told as an object. Of others what runs in them is run for real.
"""

from __future__ import annotations

import builtins
import contextvars
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from capture._native import token_fits
from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.labels import HEAP_TYPE
from capture.sources import Applied, Attr, Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import BoundBuiltin, Constant, Known, Real
from .handlers import handles
from .reconstruction import CannotReconstruct, Emitter

_UNSET = object()


def held_by(variable: contextvars.ContextVar[Any], index: int) -> Any:
    """What the current context has for a variable; not its default."""
    return variable.get(_UNSET)


def default_of(variable: contextvars.ContextVar[Any], index: int) -> Any:
    """What a variable has where no context has anything for it."""
    return contextvars.Context().run(variable.get)


class ContextVariable(Known):
    """A ``contextvars.ContextVar``, made outside. ``sets`` are the frame's own that it did not take back, each with its token.

    ``resets`` are the tokens from before by which the frame put it back.
    """

    def __init__(self, value: contextvars.ContextVar[Any]) -> None:
        super().__init__(value)
        self.sets: list[Token] = []
        self.resets: list[InputToken] = []
        self._outside: tuple[Variable | None] | None = None
        self._at_entry: tuple[Variable | None] | None = None

    def state(self, m: Interpreter) -> State:
        """What the context that is entered has for it."""
        return State(self._held(m))

    def enter(self, held: State) -> tuple[Any, ...]:
        """Another context is entered, which has this for it; what there was before, for `leave`."""
        before = self.sets, self.resets, self._outside
        self.sets, self.resets, self._outside = [], [], (held.value,)
        return before

    def leave(self, m: Interpreter, before: tuple[Any, ...]) -> State:
        """The context before is entered again; what the other has for it now."""
        held = self.state(m)
        self.sets, self.resets, self._outside = before
        return held

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
            self._outside = (self.at_entry(m),)
        return self._outside[0]

    def at_entry(self, m: Interpreter) -> Variable | None:
        """What the context has for it that the frame runs in, where the frame begins."""
        if self._at_entry is None:
            source = Applied(self._place(), held_by, 0)
            value = held_by(self.value, 0)
            if value is _UNSET:
                m.guards.add(source, GuardKind.ID, _UNSET)
            self._at_entry = (None if value is _UNSET else m.builder.wrap(value, source).realize(m),)
        return self._at_entry[0]

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
        token.inside = bool(m.effects.contexts)
        token.resets = [] if self.sets else list(self.resets)
        self.sets.append(token)
        m.effects.mutated(self)
        return token

    def _reset(self, m: Interpreter, token: Variable) -> Variable:
        if isinstance(token, InputToken):
            return self._reset_to_before(m, token)
        if not isinstance(token, Token) or not any(each is token for each in self.sets):
            raise Unsupported("a context variable put back by a token of another")
        while self.sets.pop() is not token:
            pass
        token.used = True
        m.effects.mutated(self)
        return Constant(None)

    def _reset_to_before(self, m: Interpreter, token: InputToken) -> Variable:
        real = token.value
        if self.sets or token.used or m.effects.contexts or real.var is not self.value or not token_fits(real):
            raise Unsupported("a context variable put back by a token of another")
        assert token.source is not None
        is_missing = real.old_value is contextvars.Token.MISSING
        m.guards.add(Attr(token.source, "var"), GuardKind.ID, self.value)
        fits = Predicate(
            lambda t: token_fits(t) and (t.old_value is contextvars.Token.MISSING) is is_missing,
            f"{{}} can be used, and {'nothing' if is_missing else 'something'} was there before it",
        )
        m.guards.add(token.source, GuardKind.CALLABLE, fits)
        old = None if is_missing else m.builder.wrap(real.old_value, Attr(token.source, "old_value")).realize(m)
        self._outside = (old,)
        self.resets.append(token)
        token.used = True
        m.effects.mutated(self)
        return Constant(None)

    # It is set as its tokens are made.

    def written(self) -> Iterable[Variable]:
        return self.sets or self.resets

    def replay(self, e: Emitter) -> None:
        if not self.sets:
            put_back(e, self, self.resets)


def put_back(e: Emitter, variable: Variable, tokens: Iterable[InputToken]) -> None:
    """Put a variable back by tokens from before."""
    for token in tokens:
        e.call_discarding(contextvars.ContextVar.reset, [variable, token])


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
        #: Of a context that the frame has entered.
        self.inside = False
        #: Tokens from before by which the variable was put back before that.
        self.resets: list[InputToken] = []

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
        if self.used or self.inside:
            raise CannotReconstruct(
                self, "a token of a context variable that was put back by it, or of another context"
            )
        yield self.variable
        yield self.value
        yield from self.resets
        if self.below is not None:
            yield self.below
        elif self.before is not None:
            yield self.before

    def reconstruct(self, e: Emitter) -> None:
        first = self.below or self.before
        if first is not None:  # what the context had is read, and what was set before is set, before this is
            e.load(first)
            e.emit(build.pop())
        put_back(e, self.variable, self.resets)
        e.call(contextvars.ContextVar.set, [self.variable, self.value])


class InputToken(Real):
    """A token that was made before."""

    def __init__(self, value: contextvars.Token[Any]) -> None:
        self.value = value
        self.used = False

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "var" and self.source is not None:
            return m.builder.wrap(self.value.var, Attr(self.source, name))
        return super().attribute(m, name)


class State(NamedTuple):
    """What a context has for a variable; None for nothing."""

    value: Variable | None


class Context(Variable):
    """A context that the frame made, as a copy of what it runs in (``around``) or empty, and that only the frame can enter."""

    def __init__(self, around: bool) -> None:
        self.around = around
        self.held: dict[ContextVariable, State] = {}
        self.entered = False

    def python_type(self) -> type:
        return contextvars.Context

    def truth(self, m: Interpreter) -> bool:
        raise Unsupported("how much a context holds")

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("run", "get"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "run" and args:
            return self._run(m, args[0], args[1:], kwargs)
        if name == "get" and 0 < len(args) <= 2 and not kwargs:
            held = self._has(m, args[0])
            default = args[1] if len(args) > 1 else Constant(None)
            return default if held is None else held
        raise Unsupported(f"contextvars.Context.{name} with these arguments")

    def item(self, m: Interpreter, key: Variable) -> Variable:
        held = self._has(m, key)
        if held is None:
            m.errors.throw_value(KeyError, [key])
        return held

    def contains(self, m: Interpreter, value: Variable) -> bool:
        return self._has(m, value) is not None

    def _has(self, m: Interpreter, key: Variable) -> Variable | None:
        variable = key.realize(m)
        if not isinstance(variable, ContextVariable):
            raise Unsupported("what a context holds for what is no context variable")
        return (variable.state(m) if self.entered else self._state(m, variable)).value

    def _state(self, m: Interpreter, variable: ContextVariable) -> State:
        """What it has for a variable, which may not have been met as the context was made: the frame had not set it then."""
        if variable not in self.held:
            self.held[variable] = State(variable.at_entry(m) if self.around else None)
        return self.held[variable]

    def _run(self, m: Interpreter, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        if self.entered or m.effects.later.concerned:
            raise Unsupported("a context that is entered again")
        before: list[tuple[ContextVariable, tuple[Any, ...]]] = []
        entered = Entered(lambda variable: before.append((variable, variable.enter(self._state(m, variable)))))
        for variable in m.effects.context_variables:
            entered.meet(variable)
        m.effects.contexts.append(entered)
        self.entered = True
        m.effects.mutated(self)
        try:
            return m.calls.call(function, args, kwargs).realize(m)
        finally:
            self.entered = False
            m.effects.contexts.pop()
            for variable, state in before:
                self.held[variable] = variable.leave(m, state)

    def made_of(self) -> Iterable[Variable]:
        raise CannotReconstruct(self, "a context that the frame made")


class Entered(NamedTuple):
    """A context that the frame has entered: what is done as a variable is met."""

    meet: Callable[[ContextVariable], None]


@handles(contextvars.copy_context)
def _copy_context(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if m.effects.contexts:
        raise Unsupported("a context that is copied in another")
    made: Context = m.effects.created(Context(around=True))
    for variable in m.effects.context_variables:
        made.held[variable] = variable.state(m)
    return made


@handles(contextvars.Context)
def _context(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    made: Context = m.effects.created(Context(around=False))
    return made


@builds(contextvars.Token)
def _build_token(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if source is None:
        raise Unsupported("a token of unknown origin")
    m.guards.of_type(source, contextvars.Token)
    return InputToken(value)


def _is_seen(kind: type) -> bool:
    """Whether all that asks for such values is evaluated: not for those that only code written in C makes use of, as numpy's settings are."""
    written = bool(kind.__flags__ & HEAP_TYPE) or getattr(builtins, kind.__name__, None) is kind
    return written or kind is type(None) or issubclass(kind, torch.Tensor)


@builds(contextvars.ContextVar)
def _build_context_variable(m: Interpreter, value: Any, source: Source | None) -> Variable:
    made: ContextVariable = m.builder.identified(ContextVariable(value), source)
    m.effects.context_variables.append(made)
    for entered in m.effects.contexts:  # from the outermost on
        entered.meet(made)
    return made
