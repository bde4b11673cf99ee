"""Exception groups, and what ``except*`` takes out of them.

In: exceptions of the program. Out: the part that a clause handles and the rest, and what is left to be raised after all clauses: as CPython has it
(``Objects/exceptions.c``), for groups of the built-in classes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant, looked_up
from .exceptions import ExceptionObject
from .functions import Function, Method
from .lookups import Missing, is_among
from .sequences import List, Tuple

_CLASSES = (ExceptionGroup, BaseExceptionGroup)
#: Whether an exception, or a group as a whole, is taken out.
Condition = Callable[[ExceptionObject], bool]


class Group(ExceptionObject):
    """An exception group; ``parts`` are the exceptions in it."""

    def __init__(self, cls: type, args: list[Variable], parts: list[ExceptionObject]) -> None:
        super().__init__(cls, args)
        self.parts = parts
        self._shown: Variable | None = None

    @property
    def has_state_in_c(self) -> bool:
        return False  # all of it is made of the arguments

    def initialise(self, m: Interpreter, args: Args, kwargs: Kwargs) -> None:
        """They were looked at as it was made."""

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        if name == "message":
            return self.args[0]
        if name == "exceptions":
            self._shown = self._shown or m.builder.new_tuple(list(self.parts))
            return self._shown
        if name in ("split", "subgroup", "derive"):
            return m.effects.created(BoundBuiltin(self, name))
        return super().generic_attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "derive" and len(args) == 1 and not kwargs:
            return new_group(m, BaseExceptionGroup, [self.args[0], args[0]])
        if name in ("split", "subgroup") and len(args) == 1 and not kwargs:
            match, rest = split(m, self, _condition(m, args[0].realize(m)))
            if name == "subgroup":
                return match or Constant(None)
            return m.builder.new_tuple([match or Constant(None), rest or Constant(None)])
        return super().method(m, name, args, kwargs)

    def text(self, m: Interpreter, how: Any) -> Variable:
        if how is repr:
            raise Unsupported("repr of an exception group")
        count = len(self.parts)
        message = m.builder.to_python(self.args[0])
        return Constant(f"{message} ({count} sub-exception{'s' if count != 1 else ''})")


def new_group(m: Interpreter, cls: type, args: list[Variable]) -> Group:
    """What a call of a group's class gives."""
    if cls not in _CLASSES:
        raise Unsupported(f"an exception group of class {cls.__name__}")
    if len(args) != 2 or args[0].realize(m).python_type() is not str:
        raise Unsupported("an exception group of other than a text and exceptions")
    given = args[1].realize(m)
    if not isinstance(given, (List, Tuple)):
        raise Unsupported("an exception group of other than a list or tuple")
    parts: list[ExceptionObject] = []
    for each in given.items:
        part = each.realize(m)
        if not isinstance(part, ExceptionObject):
            raise Unsupported("an exception group of exceptions from outside")
        parts.append(part)
    if not parts:
        m.errors.throw(ValueError, "second argument (exceptions) must be a non-empty sequence")
    plain = all(issubclass(part.cls, Exception) for part in parts)
    if cls is ExceptionGroup and not plain:
        m.errors.throw(TypeError, "Cannot nest BaseExceptions in an ExceptionGroup")
    made: Group = m.effects.created(Group(ExceptionGroup if plain else cls, [args[0].realize(m), given], parts))
    return made


def _group(m: Interpreter, message: Variable, parts: list[ExceptionObject]) -> Group:
    return new_group(m, BaseExceptionGroup, [message, m.effects.created(List(list(parts)))])


def _condition(m: Interpreter, what: Variable) -> Condition:
    """What ``split`` is told: a class, a tuple of them, or a function."""
    if isinstance(what, (Function, Method)):
        return lambda each: m.operators.truth(m.calls.call(what, [each], {}))
    return _of_classes(m, _classes(m, what))


def _classes(m: Interpreter, what: Variable) -> tuple[Any, ...]:
    return tuple(looked_up(m, each) for each in what.items) if isinstance(what, Tuple) else (looked_up(m, what),)


def _of_classes(m: Interpreter, classes: tuple[Any, ...]) -> Condition:
    if not all(isinstance(cls, type) and issubclass(cls, BaseException) for cls in classes):
        m.errors.throw(TypeError, "expected a function, exception type or tuple of exception types")

    def matches(each: ExceptionObject) -> bool:
        m.classes.note_order(each.cls)
        return any(is_among(cls, each.cls.__mro__) for cls in classes)

    return matches


def split(
    m: Interpreter, whole: ExceptionObject, condition: Condition
) -> tuple[ExceptionObject | None, ExceptionObject | None]:
    """What is taken out of an exception, and the rest."""
    if condition(whole):
        return whole, None
    if not isinstance(whole, Group):
        return None, whole
    taken: list[ExceptionObject] = []
    left: list[ExceptionObject] = []
    for part in whole.parts:
        match, rest = split(m, part, condition)
        taken += [] if match is None else [match]
        left += [] if rest is None else [rest]
    return _subset(m, whole, taken), _subset(m, whole, left)


def _subset(m: Interpreter, whole: Group, parts: list[ExceptionObject]) -> Group | None:
    if not parts:
        return None
    if whole.instance_attribute(m, "__notes__") is not None:
        raise Unsupported("a part of an exception group with notes")
    made = _group(m, whole.args[0], parts)
    made.origin, made.way = whole.origin, None if whole.way is None else list(whole.way)
    if whole.way:
        whole.traceback()
        made.tracebacks = dict(whole.tracebacks)
    made.context, made.context_is_set = whole.context, whole.context_is_set
    made.cause, made.suppressed = whole.cause, True
    return made


def handled_by(
    m: Interpreter, exception: Variable, what: Variable
) -> tuple[ExceptionObject | None, ExceptionObject | None]:
    """What a clause ``except* what`` handles of an exception, and the rest."""
    classes = _classes(m, what)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            m.errors.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
        if issubclass(cls, BaseExceptionGroup):
            words = "catching ExceptionGroup with except* is not allowed. Use except instead."
            m.errors.throw(TypeError, words)
    if m.builder.is_none(exception):
        return None, None
    if not isinstance(exception, ExceptionObject):
        raise Unsupported("except* of an exception from outside")
    match, rest = split(m, exception, _of_classes(m, classes))
    if match is exception and not isinstance(exception, Group):
        return _group(m, Constant(""), [exception]), None
    return match, rest


def _leaves(exception: ExceptionObject) -> Iterator[ExceptionObject]:
    if not isinstance(exception, Group):
        yield exception
        return
    for part in exception.parts:
        yield from _leaves(part)


def _goes_on(part: ExceptionObject, whole: ExceptionObject) -> bool:
    """Whether a part is as it was taken out: what was raised anew has a traceback, a context or a cause of its own."""
    same_context = part.context is whole.context
    return part.way == whole.way and same_context and part.cause is whole.cause and part.origin == whole.origin


def left_over(m: Interpreter, whole: Variable, found: list[Variable]) -> Variable:
    """What is to be raised after all clauses, of what they let out and the rest of the exception; None if nothing is."""
    if not isinstance(whole, ExceptionObject):
        raise Unsupported("except* of an exception from outside")
    if not isinstance(whole, Group):
        return found[0].realize(m) if found else Constant(None)
    raised: list[ExceptionObject] = []
    kept: set[int] = set()
    for each in found:
        part = each.realize(m)
        if m.builder.is_none(part):
            continue
        if not isinstance(part, ExceptionObject):
            raise Unsupported("except* that lets out an exception from outside")
        if _goes_on(part, whole):
            kept |= {id(leaf) for leaf in _leaves(part)}
        else:
            raised.append(part)
    again, _ = split(m, whole, lambda each: not isinstance(each, Group) and id(each) in kept)
    if not raised:
        return again or Constant(None)
    if again is not None:
        raised.append(again)
    return raised[0] if len(raised) == 1 else _group(m, Constant(""), raised)
