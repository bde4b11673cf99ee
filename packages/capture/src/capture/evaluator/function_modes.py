"""Who is asked what an operation comes to: torch-function modes, and classes with a ``__torch_function__``, evaluated as torch would call it.

In: modes as the program enters and leaves them, and operations. Out: what the innermost mode gives for an operation, or the class of an
argument. What torch hands to them, and in which order, is not said again here: a mode of our own, which only listens, is told by torch itself.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodWrapperType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from capture import _torch
from capture.errors import NotConstant, Unsupported
from capture.plain_tensors import as_class
from capture.variables.base import Args, Kwargs, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant, Known
from capture.variables.default_devices import DefaultDevice
from capture.variables.functions import Function, Method
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic
from capture.variables.placeholders import Lazy, resolved
from capture.variables.sequences import List, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Accessor, Tensor
from symshapes import hint_of, override_questions

from .state import EvaluationState


class _Heard(BaseException):
    """Signal: torch has asked the mode, and nothing is computed."""


class _Listener(TorchFunctionMode):
    """Hears what torch hands to a mode."""

    heard: tuple[Any, ...]

    def __torch_function__(self, *handed: Any) -> Any:
        self.heard = handed
        raise _Heard


class _StandIn:
    """Objects that torch takes for some that are not tensors: of a class that is asked as theirs is, and does nothing else."""

    stands_for: type

    def __torch_function__(self, *handed: Any) -> Any:
        raise AssertionError("a mode was to be asked first")


class _Callback:
    """Stands for a function of the program's, which torch hands on."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        raise Unsupported("a function of the program's that torch calls before it asks a class or mode")


class _Int(int):
    """One that is told from all others."""


class _Float(float):
    """The same."""


_NUMBERS: dict[type, Callable[[Any], Any]] = {
    int: lambda symbol: _Int(hint_of(symbol)),
    float: lambda symbol: _Float(hint_of(symbol)),
}


class FunctionModes:
    """The torch-function modes in force for one attempt, innermost last, and whether classes of values are asked.

    ``outer`` are those from outside of the frame, as many as there are in the place of which another one stands meanwhile.
    """

    def __init__(self, m: Any, state: EvaluationState) -> None:
        self._m = m
        self._state = state
        self._outer: list[Variable] = []
        self._entered: list[Variable] = []
        #: What the program switched off, innermost last: whether modes, too.
        self._off: list[bool] = []
        self._silent = 0
        self._met = False
        self._stand_ins: dict[type, type[_StandIn]] = {}
        #: What was switched off around the frame.
        self._classes_off = not _torch.torch_function_enabled()
        self._all_off = _torch.all_functions_off()
        #: The step at which the outermost one was entered.
        self.since = 0

    def begin(self, outer: Iterable[Variable]) -> None:
        """These modes are in force around the frame."""
        self._outer = list(outer)
        self._entered = list(self._outer)

    @property
    def count(self) -> int:
        """How many were entered or left, or torch functions switched off: the graph cannot end here, unless there are none."""
        stay = 0
        for one, other in zip(self._outer, self._entered, strict=False):
            if resolved(one) is not resolved(other):
                break
            stay += 1
        return len(self._outer) + len(self._entered) - 2 * stay + len(self._off)

    @property
    def active(self) -> bool:
        """Whether anyone may be asked about a call: a mode, or the class of a value that was met."""
        return self._met or bool(self._entered)

    @property
    def added(self) -> int:
        """How many modes more are in force than where the frame begins."""
        return len(self._entered) - len(self._outer)

    @property
    def from_outside(self) -> int:
        """How many of those from outside are followed."""
        return len(self._outer)

    @property
    def classes_off(self) -> bool:
        """Whether the program has switched off that classes of values are asked."""
        return bool(self._off)

    @property
    def modes_off(self) -> bool:
        """Whether it has switched off modes, too."""
        return any(self._off)

    def meet(self) -> None:
        """A value was met whose class is asked about calls."""
        self._met = True

    def enter(self, mode: Variable) -> None:
        """A mode is in force from here on."""
        self._begin()
        self._entered.append(mode)

    def _begin(self) -> None:
        if not self.count:
            self.since = self._state.step

    def enter_device(self, device: torch.device) -> None:
        """Tensors are made on a device from here on, as by ``with device``."""
        self.enter(DefaultDevice(device))

    def leave(self) -> Variable:
        """The innermost one is in force no more."""
        if not self._entered:
            raise Unsupported("a torch-function mode from outside of the frame, which is left")
        self._begin()
        return self._entered.pop()

    def at(self, place: int) -> Variable:
        """One of those in force, the outermost at 0."""
        if not 0 <= place < len(self._entered):
            raise Unsupported("a torch-function mode from outside of the frame, which is asked for")
        return self._entered[place]

    def switch_off(self, modes_too: bool) -> None:
        """Classes of values are asked no more from here on, nor modes."""
        self._begin()
        self._off.append(modes_too)

    def switch_back(self) -> None:
        """It is as before the innermost of these."""
        self._off.pop()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Nobody is asked within."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def asks(self, values: Iterable[Variable]) -> bool:
        """Whether anyone is asked about a call with these values."""
        if self._silent or self._all_off or self.modes_off:
            return False
        if self._entered:
            return True
        return not (self._off or self._classes_off) and any(map(self._overrides, values))

    def _overrides(self, value: Variable) -> bool:
        value = resolved(value)
        if isinstance(value, Lazy) and value.source is None:  # a text that is not written yet
            return False
        value = value.realize(self._m)
        if isinstance(value, (Tuple, List)):
            return any(map(self._overrides, value.items))
        return value.overrides(self._m)

    def answer(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable | None:
        """What the innermost mode makes of a call, or the class of an argument; None where torch asks none."""
        if not self.asks((*args, *kwargs.values())) or (_is_pythons(function) and not any(map(self._is_told_of, args))):
            return None
        if isinstance(function, FunctionType) and not override_questions(function):
            return None  # plain code: what it calls is asked about
        m = self._m
        stand_ins: dict[int, Variable] = {}
        try:
            given = [self._stand_in(arg, stand_ins) for arg in args]
            named = {name: self._stand_in(arg, stand_ins) for name, arg in kwargs.items()}
        except NotConstant as error:
            raise Unsupported(f"argument of a call under a torch-function mode: {error}") from None
        heard = _heard(function, given, named)
        if heard is None:
            return None
        called, types, *handed = heard
        known = [
            Accessor(called) if isinstance(called, MethodWrapperType) else m.builder.known(called),
            *[self._variable(value, stand_ins) for value in (types, *handed)],
        ]
        if self._entered:
            return self._ask_mode(known)
        asked = self._asked(types, stand_ins.values())
        for each in asked:
            found: Variable = m.calls.call(each.attribute(m, "__torch_function__"), list(known), {}).realize(m)
            if not (isinstance(found, Constant) and found.value is NotImplemented):
                return found
        if not asked:
            return None
        name = getattr(called, "__name__", str(called))
        raise Unsupported(f"the overrides of a {asked[0].python_type().__name__}, none of which implements {name}")

    def _is_told_of(self, value: Variable) -> bool:
        """Whether an operator of Python's comes to torch by such an operand."""
        found = value.realize(self._m)
        return isinstance(found, Tensor) or found.overrides(self._m)

    def _asked(self, types: tuple[type, ...], values: Iterable[Variable]) -> list[Variable]:
        """The first value of each class that is asked, in the order in which torch asks."""
        first: dict[type, Variable] = {}
        for value in values:
            if value.overrides(self._m):
                first.setdefault(value.python_type(), value)
        return [first[kind] for kind in map(_stood_for, types) if kind in first]

    def _standing_for(self, cls: type) -> type[_StandIn]:
        """The class of what stands for objects of a class, of which torch asks before those that it is made from."""
        found = self._stand_ins.get(cls)
        if found is None:
            bases = tuple(self._standing_for(base) for base in cls.__bases__ if hasattr(base, "__torch_function__"))
            found = self._stand_ins[cls] = type(cls.__name__, bases or (_StandIn,), {"stands_for": cls})
        return found

    def _stand_in(self, argument: Variable, made: dict[int, Variable]) -> Any:
        """A real argument: objects of the same classes in place of tensors of the graph, and of what overrides, which nobody looks at."""
        value = argument.realize(self._m)
        if isinstance(value, Tensor):
            found: Any = torch.empty(())
            if value.cls is torch.nn.Parameter:
                found = torch.nn.Parameter(found)
            elif value.cls is not torch.Tensor:
                found = as_class(found, value.cls)
        elif isinstance(value, Slice):
            found = slice(*[self._stand_in(part, made) for part in value.parts])
        elif isinstance(value, (Tuple, List)):
            items = [self._stand_in(part, made) for part in value.items]
            found = items if isinstance(value, List) else tuple(items)
        elif value.overrides(self._m):
            found = self._standing_for(value.python_type())()
        elif isinstance(value, Known) and isinstance(value.value, type):
            found = value.value
        elif isinstance(value, (Function, Method)):
            found = _Callback()
        else:
            found = value.as_argument(self._m)[1]
            if not isinstance(value, Symbolic):
                return found
            # What torch's own symbols compute is torch's functions again: a number, for that is what the program has.
            found = _NUMBERS.get(value.python_type(), lambda symbol: symbol)(found)
        made[id(found)] = value  # it lives as long as the call is asked about
        return found

    def _ask_mode(self, known: Args) -> Variable:
        """The innermost mode is asked, and those within which it was entered are in force meanwhile."""
        m, mode = self._m, self._entered.pop()
        try:
            found: Variable = m.calls.call(mode.realize(m).attribute(m, "__torch_function__"), known, {}).realize(m)
        finally:
            self._entered.append(mode)
        if isinstance(found, Constant) and found.value is NotImplemented:
            raise Unsupported("a torch-function mode that gives NotImplemented")
        return found

    def _variable(self, value: Any, known: dict[int, Variable]) -> Variable:
        """The variable of an argument as torch hands it on."""
        found = known.get(id(value))
        if found is not None:
            return found
        if type(value) in CONSTANT_TYPES or value is Ellipsis:
            return Constant(value)
        m, kind = self._m, type(value)
        if kind is tuple:
            return m.builder.new_tuple([self._variable(item, known) for item in value])
        if kind is list:
            made: Variable = m.effects.created(List([self._variable(item, known) for item in value]))
            return made
        if kind is dict:
            made = m.effects.created(Dict({k: (Constant(k), self._variable(v, known)) for k, v in value.items()}))
            return made
        if kind is slice:
            return Slice(*(self._variable(part, known) for part in (value.start, value.stop, value.step)))
        if isinstance(value, type):
            return m.builder.known(_stood_for(value))
        raise Unsupported(f"a {kind.__name__} in a call under a torch-function mode")


def _is_pythons(function: Any) -> bool:
    """Whether it is a function of Python's own, which asks its operands what it comes to."""
    return isinstance(function, BuiltinFunctionType) and function.__module__ in sys.stdlib_module_names


def _stood_for(cls: type) -> type:
    return cls.stands_for if issubclass(cls, _StandIn) else cls


def _heard(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What torch hands to a mode for a call: the function, types, arguments; None where it asks no mode."""
    listener = _Listener()
    try:
        with listener:
            function(*args, **kwargs)
    except _Heard:
        return listener.heard
    except Exception:  # it was no mode's turn: what it raises is told where it is recorded
        return None
    return None
