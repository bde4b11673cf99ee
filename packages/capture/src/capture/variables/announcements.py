"""What a program tells the outside: ``print``, ``warnings`` and ``logging``, of values that are known.

Nothing of the program depends on it, so that it is told after the graph ran, in order, and before what the frame changed is changed.
Where the frame has changed before whom it tells, it is told for real.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import re
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from capture._native import address
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.notices import filters_of_program
from capture.trace_rules import is_uninstalled

from .base import Args, Interpreter, Kwargs, Variable
from .constants import CONSTANT_TYPES, Constant
from .handlers import handles
from .lookups import check_as_found, is_changed, is_of_program
from .objects import Object


def _later(m: Interpreter, call: Any, listeners: Iterable[Any] = ()) -> Variable:
    """``listeners``: objects that the call may change, so that the frame may not look at them until it was made."""
    for each in listeners:
        if m.builder.met(each) is not None:
            raise Unsupported(f"telling a {type(each).__name__} that the frame looks at")
        m.effects.listeners[address(each)] = each
    m.effects.activity += 1
    m.effects.changes += 1
    m.effects.announced.append(call)
    return Constant(None)


def _known(m: Interpreter, values: Args, what: str) -> list[Any]:
    """The real values, which must be literals, or tuples and lists of them: their text is not the program's code."""
    try:
        return [m.builder.to_python(value) for value in values]
    except NotConstant:
        raise Unsupported(f"{what} of a value that is not constant") from None


def _is_plain(stream: Any) -> bool:
    """Whether what is written to a stream runs no code of the program's."""
    if stream is None:
        return True
    try:
        own = object.__getattribute__(stream, "__dict__")
    except AttributeError:
        own = {}
    # Where the class has none its own way of reading attributes is asked.
    reads, write = (inspect.getattr_static(type(stream), name, None) for name in ("__getattribute__", "write"))
    return write is not None and "write" not in own and not is_of_program(write) and not is_of_program(reads)


@handles(builtins.print)
def _print(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """To the standard output, whatever that is when the graph has run; to anything else it is a method's call."""
    file = kwargs.get("file", Constant(None))
    if not m.builder.is_none(file.realize(m)) or (id(vars(sys)), "stdout") in m.globals.written:
        raise Unsupported("print to a file")
    if not _is_plain(sys.stdout):
        raise Unsupported("print to an output that is the program's")
    named = dict(zip(kwargs, _known(m, list(kwargs.values()), "print"), strict=True))
    if not {type(named.get(name)) for name in ("sep", "end")} <= {str, type(None)}:
        m.builder.fold(print, [], {**named, "flush": False})
    return _later(m, functools.partial(print, *_known(m, args, "print"), **named))


# Warnings


def _remembers(function: Any) -> None:
    """Register a step of changing what becomes of warnings, which is made for real once the graph ran."""

    @handles(function)
    def step(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        m.effects.activity += 1
        m.effects.changes += 1
        m.effects.remembered.append(function)
        return Constant(None)


# From 3.14 a lock is held meanwhile.
for _name in ("_acquire_lock", "_filters_mutated_lock_held", "_release_lock"):
    if hasattr(warnings, _name):
        _remembers(getattr(warnings, _name))
_remembers(warnings._filters_mutated)  # type: ignore[attr-defined]


@handles(warnings.warn)
def _warn(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("message", "category", "stacklevel", "source"), args, strict=False)) | kwargs
    values = dict(zip(named, _known(m, list(named.values()), "a warning"), strict=True))
    message, category = values.pop("message"), values.pop("category", None) or UserWarning
    level = values.pop("stacklevel", 1)
    if values.get("source") is not None or values.keys() - {"source"} or not isinstance(message, str):
        raise Unsupported("a warning in ways of its own")
    if not (isinstance(category, type) and issubclass(category, Warning)) or type(level) is not int:
        m.builder.fold(warnings.warn, [message, category, level])
    frames = m.state.frames
    if _has_changed_warnings(m):
        if _is_ignored(m, message, category, frames[-max(1, min(level, len(frames)))]):
            return Constant(None)
        raise Unsupported("a warning where the program has changed what is done with them")
    if level > len(frames):  # of a caller of the frame
        _check_not_raised(m, (message, category))
        return _later(m, functools.partial(warnings.warn, message, category, level - len(frames) + 1), _recorders())
    frame = frames[-max(1, level)]
    place = (message, category, frame.code.co_filename, frame.op.line, frame.globals.get("__name__", "<sys>"))
    _check_not_raised(m, (message, category, place[4], place[3]))
    # Not held where it is what the frame is called with: its code, which holds the call, is among what that may hold.
    namespace = None if frame.globals is m.globals.own else frame.globals
    return _later(m, functools.partial(_warn_at, namespace, place), _recorders())


def _has_changed_warnings(m: Interpreter) -> bool:
    """Whether the frame has changed what becomes of a warning."""
    names = ("filters", "showwarning", "_showwarnmsg_impl")
    return any((id(vars(warnings)), name) in m.globals.written for name in names) or is_changed(m, warnings.filters)


def _warn_at(namespace: dict[str, Any] | None, place: tuple[Any, ...]) -> None:
    """What ``warnings.warn`` does, called at that place; ``namespace``: its globals, if those are not the caller's."""
    message, category, file, line, module = place
    if namespace is None:
        namespace = sys._getframe(1).f_globals
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module, registry)


def _check_not_raised(m: Interpreter, warning: tuple[Any, ...]) -> None:
    """One that filters make an exception is raised where the program is, which may handle it; so is one that the program shows itself."""
    raised = functools.partial(_is_raised, *warning)
    if raised():
        raise Unsupported("a warning that is raised as an exception")
    if _are_shown_by_program():
        raise Unsupported("a warning that the program shows in its own way")
    m.guards.add(None, GuardKind.ANSWER, (lambda: raised() or _are_shown_by_program(), (), False))


def _are_shown_by_program() -> bool:
    """Whether the program's own code shows warnings."""
    return _is_written_by_program(warnings.showwarning) or _is_written_by_program(warnings._showwarnmsg_impl)  # type: ignore[attr-defined]


def _recorders() -> Iterator[Any]:
    """The lists that warnings are put into as they are told."""
    for each in warnings.showwarning, warnings._showwarnmsg_impl:  # type: ignore[attr-defined]
        if isinstance(each, types.BuiltinMethodType) and not isinstance(each.__self__, types.ModuleType):
            yield each.__self__


def _is_raised(message: str, category: type[Warning], module: str | None = None, line: int = 0) -> bool:
    """Whether the filters that are in force make an exception of a warning; of one whose place is not known, whether they may."""
    for action, text, cls, of, at in filters_of_program():
        here = module is None or (_fits(of, module) and at in (0, line))
        if issubclass(category, cls) and _fits(text, message) and here and (module or action == "error"):
            return action == "error"
    return warnings.defaultaction == "error"  # type: ignore[attr-defined]


def _is_ignored(m: Interpreter, message: str, category: type[Warning], frame: Any) -> bool:
    """Whether the filters, as the program has them now, ignore a warning."""
    module = frame.globals.get("__name__", "<sys>")
    for row in m.iteration.elements(m.globals.read(vars(warnings), "filters")):
        action, text, cls, of, line = _known(m, m.iteration.elements(row), "a filter of warnings")
        if issubclass(category, cls) and _fits(text, message) and _fits(of, module) and line in (0, frame.op.line):
            return bool(action == "ignore")
    return False


def _fits(pattern: str | re.Pattern[str] | None, text: str) -> bool:
    """As ``_warnings`` has it."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None


# Logging


def _log(m: Interpreter, logger: Variable, level: int, args: Args, kwargs: Kwargs) -> Variable:
    """A record: nothing happens below the logger's level; else it is made of where the program is now, and handled later."""
    real = logger.value if isinstance(logger, Object) else None
    if not isinstance(real, logging.Logger) or (isinstance(logger, Object) and logger.attrs):
        raise Unsupported("logging by a logger that is not known")
    if not _is_enabled(m, logger, real, level):
        return Constant(None)
    if _runs_programs_code(real):
        raise Unsupported("logging that the program handles in its own way")
    m.guards.predicate(logger, lambda value: not _runs_programs_code(value), "{} logs to nothing of the program's")
    named = dict(zip(kwargs, _known(m, list(kwargs.values()), "logging"), strict=True))
    back = named.pop("stacklevel", 1)
    extra = named.pop("extra", None)
    if any(value for value in named.values()) or named.keys() - {"exc_info", "stack_info"}:
        raise Unsupported("logging of an exception or a stack")
    message, *values = _known(m, args, "logging")
    frames = [frame for frame in m.state.frames if frame.code.co_filename != logging._srcfile]
    if not 1 <= back <= len(frames):
        raise Unsupported("logging of a place outside the frame")
    frame = frames[-back]
    place = (frame.code.co_filename, frame.op.line)
    record = (real.name, level, *place, message, tuple(values), None, frame.code.co_name, extra, None)
    handlers = [handler for each in _that_handle(real) for handler in each.handlers]
    return _later(m, functools.partial(_handle, real, record), _held_by(handlers))


def _with_parents(logger: logging.Logger) -> Iterator[logging.Logger]:
    each: logging.Logger | None = logger
    while each is not None:
        yield each
        each = each.parent


def _that_handle(logger: logging.Logger) -> Iterator[logging.Logger]:
    """A logger and its parents up to where they do not tell theirs."""
    for each in _with_parents(logger):
        yield each
        if not each.propagate:
            break


def _held_by(handlers: Iterable[logging.Handler]) -> Iterator[Any]:
    """Handlers, and what these may write to: the objects in their attributes."""
    for handler in handlers:
        yield handler
        for value in vars(handler).values():
            if isinstance(value, logging.Handler):
                yield from _held_by([value])
            elif type(value) not in CONSTANT_TYPES and not isinstance(value, (types.ModuleType, type)):
                yield value


def _runs_programs_code(logger: logging.Logger) -> bool:
    """Whether the program's own code handles what is logged: the frame may have to do with what that does, and that with what the frame did."""
    for each in _that_handle(logger):
        asked: list[Any] = [*each.handlers, *each.filters]
        for handler in each.handlers:
            asked += [*handler.filters, handler.formatter, getattr(handler, "stream", None)]
        if any(map(_is_written_by_program, asked)):
            return True
    return False


def _is_written_by_program(value: Any) -> bool:
    """Whether it is a function of the program's, or an object with methods of the program's, past what is installed."""
    if isinstance(value, types.FunctionType):
        return is_uninstalled(value.__code__.co_filename)
    return any(
        isinstance(method, types.FunctionType) and is_uninstalled(method.__code__.co_filename)
        for base in type(value).__mro__
        if base.__module__ != logging.__name__
        for method in vars(base).values()
    )


def _is_enabled(m: Interpreter, logger: Variable, real: logging.Logger, level: int) -> bool:
    """Whether it makes records of a level; guarded."""
    check_as_found(m, real._cache, real.manager)  # type: ignore[attr-defined]
    for each in _with_parents(real):
        check_as_found(m, each, each.handlers, each.filters, *each.handlers)
    enabled = real.isEnabledFor(level)
    words = f"{{}} {'logs' if enabled else 'is silent for'} {logging.getLevelName(level).lower()}"
    if logger.source is not None:
        m.guards.predicate(logger, lambda value: value.isEnabledFor(level) is enabled, words)
    return enabled


@handles(logging.Logger.isEnabledFor)
def _is_enabled_for(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    logger = args[0].realize(m)
    (level,) = _known(m, [args[1] if len(args) > 1 else kwargs["level"]], "logging")
    real = logger.value if isinstance(logger, Object) and not logger.attrs else None
    if not isinstance(real, logging.Logger) or type(level) is not int:
        raise Unsupported("logging by a logger that is not known")
    return Constant(_is_enabled(m, logger, real, level))


def _handle(logger: logging.Logger, record: tuple[Any, ...]) -> None:
    logger.handle(logger.makeRecord(*record))


def _of_level(name: str) -> None:
    level = getattr(logging, name.upper())

    @handles(getattr(logging.Logger, name))
    def log(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return _log(m, args[0].realize(m), level, args[1:], kwargs)


for _level in ("debug", "info", "warning", "error", "critical"):
    _of_level(_level)


@handles(logging.Logger.log)
def _log_at(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    (level,) = _known(m, [args[1]], "logging")
    if type(level) is not int:
        raise Unsupported("logging of a level that is no number")
    return _log(m, args[0].realize(m), level, args[2:], kwargs)
