"""Exception objects of the program."""

from __future__ import annotations

import functools
import sys
import traceback
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.labels import HEAP_TYPE
from capture.sources import Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds_where
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .lookups import Missing, class_lookup, is_data_descriptor, shown_type
from .objects import Object
from .raising import raised, raiser
from .reconstruction import CannotReconstruct, Emitter

#: What a class written in C has for what it keeps.
_IN_C = (types.GetSetDescriptorType, types.MemberDescriptorType)


class Traceback(Variable):
    """The traceback that ``__exit__`` is told: there is one, but no frame is real while evaluating."""

    def __init__(self, exception: ExceptionObject) -> None:
        self.exception = exception
        self.entries = len(exception.way or ())

    def made_of(self) -> Iterable[Variable]:
        if len(self.exception.way or ()) != self.entries:
            raise CannotReconstruct(self.exception, "a traceback that an exception had before it was raised again")
        return (self.exception,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.exception)
        e.emit(build.load_attr("__traceback__"))

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, m: Interpreter) -> bool:
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol not in ("==", "!="):
            return None
        return Constant(m.operators.is_(self, other) == (symbol == "=="))


@handles(traceback.clear_frames)
def _clear_frames(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """No frame of one that was raised in the evaluation is there to be cleared."""
    if not isinstance(args[0].realize(m), Traceback):
        raise Unsupported("traceback.clear_frames of a real traceback")
    return Constant(None)


class ExceptionObject(Object):
    """An exception instance; what the interpreter keeps in it is in ``args``, ``cause``, ``context`` and ``suppressed``."""

    reads_plainly = False
    dies_backwards = True  # its arguments, at least

    def __init__(self, cls: type, args: list[Variable], value: Any = None) -> None:
        super().__init__(cls, value)
        self.args = args
        self.origin = -1
        self.cause: Variable = Constant(None)
        #: The operations that it passed since it was raised, innermost first, by code and index; None: its traceback is another.
        self.way: list[tuple[types.CodeType, int]] | None = []
        #: The tracebacks that it was seen to have, by how many operations it had passed.
        self.tracebacks: dict[int, Traceback] = {}
        #: Whether its traceback was taken away after it was raised.
        self.bare = False
        #: What was being handled where it was raised; None: what was where the captured frame began.
        self.context: Any = None
        self.context_is_set = False
        #: Whether its context is the exception whose place it took, whatever is handled where it is raised.
        self.took_place = False
        self.suppressed = False
        #: Whether the evaluation raised it in the interpreter's place, which tells some of them more.
        self.thrown = False
        #: What ``AttributeError``, ``NameError`` and ``ImportError`` were told by keyword.
        self.details: Kwargs = {}

    def traceback(self) -> Traceback:
        """The traceback that it has now: one object for as long as it is not raised on."""
        if self.way is None:
            return Traceback(self)
        return self.tracebacks.setdefault(len(self.way), Traceback(self))

    def instance_attribute(self, m: Interpreter, name: str) -> Variable | None:
        if name in self.attrs:
            return self.attrs[name]
        read = _FIELDS.get(name)
        if read is not None:
            return read(m, self)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else Constant(None)
        return super().instance_attribute(m, name)

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        raw, owner = class_lookup(m, self.cls, name)
        if isinstance(raw, _IN_C) and not raw.__objclass__.__flags__ & HEAP_TYPE:
            if name in _FIELDS or name == "value" or name in self.attrs:
                found = self.instance_attribute(m, name)
                if found is not None:
                    return found
            if name in _DETAILS and issubclass(self.cls, _DETAILS[name]):
                if self.thrown:
                    raise Unsupported(f"{name!r} of an exception that the interpreter raised")
                return self.details.get(name, Constant(None))
        elif name in _FIELDS or (name == "value" and issubclass(self.cls, StopIteration)):
            # The program's class has something else by the name.
            held = None if is_data_descriptor(m, raw) else self.attrs.get(name)
            return held or self.class_attribute(m, raw, owner, name)
        if isinstance(raw, types.MethodDescriptorType) and raw.__objclass__ in self.cls.__mro__:
            return m.effects.created(BoundBuiltin(self, name))
        return super().generic_attribute(m, name)

    def generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        if name in ("__dict__", "__class__"):
            raise Unsupported(f"replacing {name} of an exception")
        if not isinstance(class_lookup(m, self.cls, name)[0], _IN_C):
            super().generic_set(m, name, value)  # as of any object, whose class may have a property there
            return
        write = _SETTERS.get(name)
        if write is None:
            self.put(name, value)
        else:
            write(m, self, value.realize(m))
        m.effects.mutated(self)

    def builtin(self, m: Interpreter, owner: type, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__init__":
            self.initialise(m, args, kwargs)
            return Constant(None)
        if name == "with_traceback":
            _set_traceback(m, self, args[0].realize(m))
            return self
        if name == "add_note":
            return self.add_note(m, args[0].realize(m))
        if name in ("__str__", "__repr__"):
            return self.text(m, str if name == "__str__" else repr)
        if name == "__setstate__":
            raise Unsupported("state of an exception")
        return super().builtin(m, owner, name, args, kwargs)

    def initialise(self, m: Interpreter, args: Args, kwargs: Kwargs) -> None:
        """``BaseException.__init__`` and those of the classes that take keywords."""
        known = {name for name, classes in _DETAILS.items() if issubclass(self.cls, classes)}
        if not kwargs.keys() <= known:
            raise Unsupported(f"{self.cls.__name__} with keyword arguments")
        base = next(c for c in self.cls.__mro__ if not c.__flags__ & HEAP_TYPE)
        if not takes_any(base):
            if not all(map(m.builder.is_constant, args)):
                raise Unsupported(f"{self.cls.__name__} with arguments that are not constant")
            m.builder.fold(base, [m.builder.to_python(a) for a in args])  # it looks at them
        self.args = list(args)
        self.details = dict(kwargs)

    def add_note(self, m: Interpreter, note: Variable) -> Variable:
        """``add_note``: the list of notes is made with the first."""
        if not issubclass(note.python_type(), str):
            m.errors.throw(TypeError, f"note must be a str, not {shown_type(note.python_type())!r}")
        notes = self.instance_attribute(m, "__notes__")
        if notes is None:
            notes = m.builder.from_python([])
            self.put("__notes__", notes)
            m.effects.mutated(self)
        m.calls.call(notes.realize(m).attribute(m, "append"), [note], {})
        return Constant(None)

    def seen_context(self, m: Interpreter) -> Variable:
        """``__context__``: of one that was raised while nothing was handled here, what the frame's callers handle counts."""
        if self.context is None and self.origin >= 0 and not self.context_is_set and m.errors.current_outside(m):
            raise Unsupported("the exception that a caller is handling")
        return self.context or Constant(None)

    @property
    def has_state_in_c(self) -> bool:
        """Whether the built-in class beneath keeps more than arguments, context and notes."""
        built_in = (c for c in self.cls.__mro__ if issubclass(c, BaseException) and not c.__flags__ & HEAP_TYPE)
        return any(c.__basicsize__ != BaseException.__basicsize__ for c in built_in)

    def text(self, m: Interpreter, how: Any) -> Variable:
        """``str`` or ``repr`` (``how``) of it, which its arguments must be known for."""
        base = next(c for c in self.cls.__mro__ if c.__module__ == "builtins")
        if how is repr and base is not self.cls:
            raise Unsupported("repr of a user's exception")
        try:
            args = [m.builder.to_python(a) for a in self.args]
        except NotConstant:
            raise Unsupported("text of an exception with arguments that are not constant") from None
        try:
            return Constant(how(base(*args)))
        except TypeError:  # one that was never initialised
            raise Unsupported(f"text of an {base.__name__} with other than its arguments") from None

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def made_of(self) -> Iterable[Variable]:
        if self.origin >= 0 and not self.way and not self.bare:
            raise CannotReconstruct(self, "an exception that was raised and is kept, with its traceback")
        if issubclass(self.cls, BaseExceptionGroup) and len(self.args) != 2:
            raise CannotReconstruct(self, "an exception group that was given other arguments")
        if self.has_state_in_c:
            raise CannotReconstruct(self, f"an instance of {self.cls.__name__}, which keeps state in C")
        if self.context_is_set or (self.context is not None and not self.way and not self.bare):
            raise CannotReconstruct(self, "an exception with a context that it was given")
        context: list[Variable] = [] if self.context is None else [self.context]
        if self._has_of_another:
            context.append(self.traceback())
        return [*self.args, self.cause, *(x for x in self.attrs.values() if x is not None), *context]

    @property
    def _has_of_another(self) -> bool:
        """Whether its traceback is one that another has as well."""
        found = self.tracebacks.get(len(self.way)) if self.way else None
        return found is not None and found.exception is not self

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls.__new__)), build.load_const(self.cls))
        e.emit(build.call(1 + e.load_many(self.args)))
        if self.suppressed or not isinstance(self.cause, Constant):
            e.emit(build.copy(1))
            e.load(self.cause)
            e.emit(build.swap(2), build.store_attr("__cause__"))
            e.emit(
                build.copy(1),
                build.load_const(self.suppressed),
                build.swap(2),
                build.store_attr("__suppress_context__"),
            )
        if self.attrs:
            self.fill(e)
        if self._has_of_another or (self.bare and not self.way):
            for name, part in (
                ("__context__", self.context),
                ("__traceback__", self.tracebacks.get(len(self.way or ()))),
            ):
                if part is not None:
                    e.emit(build.copy(1))
                    e.load(part)
                    e.emit(build.swap(2), build.store_attr(name))
        elif self.way:
            name = e.temp()
            e.leaves_frame = True
            e.emit(build.store_fast(name), build.push_callable(build.load_const(raised)), build.load_fast(name))
            e.emit(build.load_const(raiser(tuple(self.way))))
            e.load_many([] if self.context is None else [self.context])
            e.emit(build.call(2 if self.context is None else 3))

    def reconstruct_empty(self, e: Emitter) -> None:
        raise CannotReconstruct(self, f"{self!r} contains itself")


@functools.cache
def takes_any(base: type) -> bool:
    """Whether a built-in class of exceptions takes whatever it is given."""
    try:
        for count in range(7):
            base(*[object() for _ in range(count)])
    except TypeError:
        return False
    return True


def _traceback(m: Interpreter, exception: ExceptionObject) -> Variable:
    none = exception.origin < 0 or (exception.bare and not exception.way)
    return Constant(None) if none else exception.traceback()


#: What the interpreter keeps in every exception, by attribute.
_FIELDS: dict[str, Callable[[Interpreter, ExceptionObject], Variable]] = {
    "args": lambda m, exception: m.builder.new_tuple(list(exception.args)),
    "__cause__": lambda m, exception: exception.cause,
    "__context__": lambda m, exception: exception.seen_context(m),
    "__suppress_context__": lambda m, exception: Constant(exception.suppressed),
    "__traceback__": _traceback,
}


def _set_args(m: Interpreter, exception: ExceptionObject, value: Variable) -> None:
    exception.args = m.iteration.elements(value)


def _set_cause(m: Interpreter, exception: ExceptionObject, value: Variable) -> None:
    exception.cause = _exception_or_none(m, value, "exception cause must be None or derive from BaseException")
    exception.suppressed = True


def _set_context(m: Interpreter, exception: ExceptionObject, value: Variable) -> None:
    found = _exception_or_none(m, value, "exception context must be None or derive from BaseException")
    exception.context = found if isinstance(found, ExceptionObject) else None
    exception.context_is_set = True


def _exception_or_none(m: Interpreter, value: Variable, words: str) -> Variable:
    if not m.builder.is_none(value) and not isinstance(value, ExceptionObject):
        m.errors.throw(TypeError, words)
    return value


def _set_traceback(m: Interpreter, exception: ExceptionObject, value: Variable) -> None:
    if not m.builder.is_none(value) and not isinstance(value, Traceback):
        m.errors.throw(TypeError, "__traceback__ must be a traceback or None")
    if isinstance(value, Traceback) and value.exception is exception:
        exception.way = None
        return  # it has it already, and more of it by now
    if isinstance(value, Traceback) or exception.way is None:
        raise Unsupported("a traceback given to an exception")
    if exception.origin >= 0:
        if exception.context is None and not exception.context_is_set and m.errors.current_outside(m):
            raise Unsupported("the exception that a caller is handling")
        exception.way, exception.bare = [], True
        exception.tracebacks = {}


def _set_suppressed(m: Interpreter, exception: ExceptionObject, value: Variable) -> None:
    if value.python_type() is not bool:
        m.errors.throw(TypeError, "attribute value type must be bool")
    exception.suppressed = m.operators.truth(value)


_SETTERS: dict[str, Callable[[Interpreter, ExceptionObject, Variable], None]] = {
    "args": _set_args,
    "__cause__": _set_cause,
    "__context__": _set_context,
    "__traceback__": _set_traceback,
    "__suppress_context__": _set_suppressed,
}
#: What some exceptions are told by keyword, and which.
_DETAILS: dict[str, tuple[type[BaseException], ...]] = {
    "name": (AttributeError, NameError, ImportError),
    "obj": (AttributeError,),
    "path": (ImportError,),
}


@handles(sys.exception)
def _exception(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.errors.current(m) or Constant(None)


@handles(sys.exc_info)
def _exc_info(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    handled = m.errors.current(m)
    if handled is None:
        return m.builder.new_tuple([Constant(None)] * 3)
    if not isinstance(handled, ExceptionObject):
        raise Unsupported("the traceback of an exception from outside")
    return m.builder.new_tuple([m.builder.known(handled.python_type()), handled, handled.traceback()])


@builds_where(lambda cls: issubclass(cls, BaseException))
def _build_exception(m: Interpreter, value: Any, source: Source | None) -> Variable:
    raise Unsupported("an exception object as input")
