"""The protocols of the language over variables: calls and inlining, iteration, truth, sorting, generators, exceptions."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.trace_rules import is_foreign, is_recorded_python, module_of
from capture.variables.base import Args, Kwargs, Variable
from capture.variables.constants import Constant, Known
from capture.variables.functions import Function
from capture.variables.generators import Generator
from capture.variables.handlers import handler_of
from capture.variables.instances import InstanceDict
from capture.variables.iterators import Iterator, UserIterator
from capture.variables.lookups import class_lookup, shown_type
from capture.variables.mappings import Dict, DictView
from capture.variables.numbers import Symbolic
from capture.variables.objects import Object
from capture.variables.sequences import List, Tuple
from capture.variables.signals import StopIter, SymbolicRaise
from capture.variables.tensors import Tensor
from symshapes import is_generated

from . import operators
from .frame import RETURN, YIELD, Frame, resume_with_error, run
from .recording import Recording

_SKIPPED_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


class Protocols(Recording):
    """What the interpreter itself knows how to do."""

    # Calls

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``function(*args, **kwargs)``."""
        return function.realize(self.me).call(self.me, args, kwargs)

    def call_function(self, function: Function, args: Args, kwargs: Kwargs) -> Variable:
        """A Python function: known as a whole, a torch operation, or inlined."""
        real = function.real
        self.note_code(function)
        if real is not None:
            module = module_of(real)
            handler = handler_of(real, module)
            if handler is not None:
                return handler(self.me, args, kwargs)
            if is_recorded_python(module) and any(self.has_tensor(v) for v in (*args, *kwargs.values())):
                return self.record("call_function", real, args, kwargs)
            if f"{module}.".startswith("torch.autograd."):
                self.note_places(*args, *kwargs.values())
            if is_foreign(module):
                raise Unsupported(f"call of {module}.{real.__qualname__}")
        return self.inline(function, args, kwargs)

    def inline(self, function: Function, args: Args, kwargs: Kwargs) -> Variable:
        """Evaluate the function's body in a frame of its own, into the same graph."""
        code = function.code
        if code.co_flags & _SKIPPED_FLAGS:
            raise Unsupported(f"coroutine {code.co_qualname}")
        if is_generated(code):
            raise Unsupported(f"generated code ({code.co_qualname} in {code.co_filename})")
        bound = function.bind(self.me, args, kwargs)
        # Those that it was made with, whatever its globals say now.
        builtins: Any = getattr(function.real, "__builtins__", None) or function.globals.get("__builtins__")
        if isinstance(builtins, types.ModuleType):
            builtins = vars(builtins)
        frame = Frame(code, function.globals, builtins or {}, bound, function.closure)
        if code.co_flags & inspect.CO_GENERATOR:
            return self.created(Generator(frame, function, (args, kwargs)))
        signal = run(self.me, frame)
        assert signal == RETURN
        return frame.result

    def resume_generator(
        self, frame: Frame, sent: Variable | None, error: SymbolicRaise | None
    ) -> tuple[bool, Variable]:
        """Continue a generator's frame; (whether it yielded, the value)."""
        if error is not None:
            resume_with_error(self.me, frame, error)
        elif sent is not None:
            frame.push(sent)
        handled, origin = self.handled, self.handled_origin
        try:
            signal = run(self.me, frame)
        finally:
            self.handled, self.handled_origin = handled, origin
        return signal == YIELD, frame.result

    # Attributes

    def getattr(self, owner: Variable, name: str) -> Variable:
        return owner.realize(self.me).attribute(self.me, name)

    # Operators

    def unary(self, symbol: str, value: Variable) -> Variable:
        return operators.unary(self.me, symbol, value)

    def binary(self, symbol: str, left: Variable, right: Variable) -> Variable:
        return operators.binary(self.me, symbol, left, right)

    def inplace(self, symbol: str, left: Variable, right: Variable) -> Variable:
        return operators.inplace(self.me, symbol, left, right)

    def compare(self, symbol: str, left: Variable, right: Variable) -> Variable:
        return operators.compare(self.me, symbol, left, right)

    def is_(self, left: Variable, right: Variable) -> bool:
        return operators.is_same(self.me, left, right)

    def equal(self, left: Variable, right: Variable) -> bool:
        """Identity or equality, as containers compare."""
        left, right = left.realize(self.me), right.realize(self.me)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return bool(left.value is right.value or left.value == right.value)
        return self.is_(left, right) or self.truth(self.compare("==", left, right))

    def truth(self, value: Variable) -> bool:
        return value.realize(self.me).truth(self.me)

    def index(self, value: Variable) -> int:
        """A real integer, as ``operator.index`` gives."""
        real = value.realize(self.me)
        if isinstance(real, Symbolic):
            return int(real.specialise(self.me))
        if isinstance(real, Object):
            found = real.call_special(self.me, "__index__", [])
            if found is not None:
                return self.index(found)
        try:
            plain = real.as_python(self.me)
        except NotConstant:
            raise Unsupported(f"{real!r} as an integer") from None
        if not hasattr(plain, "__index__"):
            self.throw(TypeError, f"{shown_type(type(plain))!r} object cannot be interpreted as an integer")
        return int(plain.__index__())

    def text(self, value: Variable, how: str = "str") -> Variable:
        """``str(value)`` or ``repr(value)``."""
        real = value.realize(self.me)
        if isinstance(real, Object):
            name = "__repr__" if how == "repr" else "__str__"
            found = real.special(self.me, name) or real.special(self.me, "__repr__")
            if found is None:
                raise Unsupported(f"text of {real!r}")
            return self.call(found, [], {})
        if isinstance(real, Symbolic):
            real = Constant(real.specialise(self.me))
        try:
            plain = real.as_python(self.me)
        except NotConstant:
            raise Unsupported(f"text of {real!r}") from None
        if (
            isinstance(real, Known)
            and not isinstance(plain, type)
            and class_lookup(self.me, type(plain), "__repr__")[1] is object
        ):
            raise Unsupported(f"text of {real!r}")
        return Constant(self.fold({"repr": repr, "str": str}[how], [plain]))

    def format(self, value: Variable, spec: str) -> Variable:
        """``format(value, spec)``."""
        real = value.realize(self.me)
        if isinstance(real, Tensor):
            raise Unsupported("formatting a tensor")
        if isinstance(real, Symbolic):
            real = Constant(real.specialise(self.me))
        if isinstance(real, Object) and isinstance(
            class_lookup(self.me, real.cls, "__format__")[0], types.FunctionType
        ):
            return self.call(self.getattr(real, "__format__"), [Constant(spec)], {})
        if isinstance(real, Constant):
            return Constant(self.fold(builtins.format, [real.value, spec]))
        text = self.text(real)
        if spec:
            try:
                return Constant(self.fold(builtins.format, [self.to_python(real), spec]))
            except NotConstant:
                raise Unsupported("formatting of an object with a format specification") from None
        return text

    # Iteration

    def iterate(self, value: Variable) -> Variable:
        """``iter(value)``."""
        self.activity += 1  # what iterates may come to an end halfway
        return value.realize(self.me).iterate(self.me)

    def iterate_with(self, method: Variable) -> Variable:
        """What an ``__iter__`` gives."""
        found = self.call(method, [], {}).realize(self.me)
        return self.created(UserIterator(found)) if isinstance(found, Object) else found

    def next_value(self, iterator: Variable) -> Variable:
        """``next(iterator)``."""
        self.activity += 1
        return self.stop_as_exception(lambda: iterator.next(self.me))

    def stop_as_exception(self, action: Callable[[], Variable]) -> Variable:
        """Turn exhaustion into the program's ``StopIteration``."""
        try:
            return action()
        except StopIter as stop:
            value = stop.value
            self.throw_value(StopIteration, [] if value is None or self.is_none(value) else [value])

    def next_of_object(self, owner: Variable) -> Variable:
        """``__next__`` of a user's object; its ``StopIteration`` becomes the signal."""
        try:
            return owner.realize(self.me).method(self.me, "__next__", [], {})
        except SymbolicRaise as raised:
            if issubclass(raised.exception.python_type(), StopIteration):
                raise StopIter from None
            raise

    def elements(self, value: Variable) -> list[Variable]:
        """All elements of an iterable, as ``list`` takes them."""
        real = value.realize(self.me)
        if type(real) in (List, Tuple):
            return list(real.items)  # type: ignore[attr-defined]
        if isinstance(real, DictView):
            return real.elements(self.me)
        iterator = self.iterate(real)
        if not isinstance(iterator, Iterator):
            iterator = iterator.realize(self.me)
        found: list[Variable] = []
        while True:
            try:
                found.append(iterator.next(self.me))
            except StopIter:
                return found
            self.count_instructions(1)

    def iterates_as_dict(self, cls: type) -> bool:
        """Whether what a dictionary of a class holds is copied as it lies, whatever else the class says of reading it."""
        return issubclass(class_lookup(self.me, cls, "__iter__")[1], dict)

    def pairs(self, value: Variable) -> list[tuple[Variable, Variable]]:
        """Keys and values of a mapping, or of an iterable of pairs, as ``dict`` takes them."""
        real = value.realize(self.me)
        if isinstance(real, InstanceDict):
            real = real.as_dict(self.me)
        if isinstance(real, Object) and isinstance(real.payload, Dict) and self.iterates_as_dict(real.cls):
            real = real.payload
        if isinstance(real, Dict):
            return list(real.in_order(self.me).values())
        if isinstance(real, Object) and real.special(self.me, "keys") is not None:
            keys = self.elements(self.call(real.attribute(self.me, "keys"), [], {}))
            return [(k, real.item(self.me, k)) for k in keys]
        found = []
        for pair in self.elements(real):
            both = self.elements(pair)
            if len(both) != 2:
                self.throw(ValueError, "dictionary update sequence element has a wrong length; 2 is required")
            found.append((both[0], both[1]))
        return found

    def sort(self, items: list[Variable], key: Variable | None, reverse: Variable | None) -> list[Variable]:
        """Stable order by ``<`` on the keys."""
        by_key = key is not None and not self.is_none(key)
        keys = [self.call(key, [x], {}) if by_key and key is not None else x for x in items]

        def less(a: tuple[Variable, Variable], b: tuple[Variable, Variable]) -> int:
            if self.truth(self.compare("<", a[0], b[0])):
                return -1
            return 1 if self.truth(self.compare("<", b[0], a[0])) else 0

        backwards = reverse is not None and self.truth(reverse)
        ordered = sorted(zip(keys, items, strict=True), key=functools.cmp_to_key(less), reverse=backwards)
        return [item for _, item in ordered]

    # Exceptions

    def exception_of(self, args: Args) -> Variable:
        """The exception object that ``raise X`` or ``throw(X)`` means."""
        what = args[0].realize(self.me)
        if isinstance(what, Known) and isinstance(what.value, type) and issubclass(what.value, BaseException):
            what = self.call(what, args[1:2], {}).realize(self.me)
        if not issubclass(what.python_type(), BaseException):
            self.throw(TypeError, "exceptions must derive from BaseException")
        return what
