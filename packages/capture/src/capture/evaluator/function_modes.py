"""Torch-function modes that the program enters: what each makes of an operation is evaluated, as torch would call it.

In: modes as the program enters and leaves them, and operations. Out: what the innermost mode gives for an operation. What torch
hands to a mode is not said again here: a mode of our own, which only listens, is told by torch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodWrapperType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from capture.errors import NotConstant, Unsupported
from capture.variables.base import Args, Kwargs, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant
from capture.variables.default_devices import DefaultDevice
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic
from capture.variables.sequences import List, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Getter, Tensor

from .state import EvaluationState


class _Heard(BaseException):
    """Signal: torch has asked the mode, and nothing is computed."""


class _Listener(TorchFunctionMode):
    """Hears what torch hands to a mode."""

    heard: tuple[Any, Any, Any, Any]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard = func, types, args, kwargs
        raise _Heard


class FunctionModes:
    """The torch-function modes that one attempt has entered, innermost last."""

    def __init__(self, m: Any, state: EvaluationState) -> None:
        self._m = m
        self._state = state
        self._entered: list[Variable] = []
        #: The step at which the outermost one was entered.
        self.since = 0

    @property
    def count(self) -> int:
        """How many are in force: the graph cannot end here, unless there are none."""
        return len(self._entered)

    def enter(self, mode: Variable) -> None:
        """A mode is in force from here on."""
        if not self._entered:
            self.since = self._state.step
        self._entered.append(mode)

    def enter_device(self, device: torch.device) -> None:
        """Tensors are made on a device from here on, as by ``with device``."""
        self.enter(DefaultDevice(device))

    def leave(self) -> Variable:
        """The innermost one is in force no more."""
        if not self._entered:
            raise Unsupported("a torch-function mode from outside of the frame, which is left")
        return self._entered.pop()

    def at(self, place: int) -> Variable:
        """One of those entered, the outermost at 0."""
        if not 0 <= place < len(self._entered):
            raise Unsupported("a torch-function mode from outside of the frame, which is asked for")
        return self._entered[place]

    def refuse(self, what: str) -> None:
        """Raise ``Unsupported`` for what a mode would be asked about, were one in force."""
        if self._entered:
            raise Unsupported(f"{what} under a torch-function mode")

    def answer(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable | None:
        """What the innermost mode makes of a call; None where there is none, or torch does not ask it."""
        if not self._entered:
            return None
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
        called, *handed = heard
        return self._call(
            Getter(called) if isinstance(called, MethodWrapperType) else m.builder.known(called),
            *[self._variable(value, stand_ins) for value in handed],
        )

    def _stand_in(self, argument: Variable, made: dict[int, Variable]) -> Any:
        """A real argument: tensors of the same classes in place of those of the graph, which nobody looks at."""
        value = argument.realize(self._m)
        if isinstance(value, Tensor):
            found: Any = torch.empty(())
            if value.cls is torch.nn.Parameter:
                found = torch.nn.Parameter(found)
        elif isinstance(value, Slice):
            found = slice(*[self._stand_in(part, made) for part in value.parts])
        elif isinstance(value, Tuple | List):
            items = [self._stand_in(part, made) for part in value.items]
            found = items if isinstance(value, List) else tuple(items)
        else:
            found = value.as_argument(self._m)[1]
            if not isinstance(value, Symbolic):
                return found
        made[id(found)] = value  # it lives as long as the call is asked about
        return found

    def _call(self, *args: Variable) -> Variable:
        """The mode is asked, and those within which it was entered are in force meanwhile."""
        m, mode = self._m, self._entered.pop()
        try:
            found: Variable = m.calls.call(mode.attribute(m, "__torch_function__"), list(args), {}).realize(m)
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
            return m.builder.known(value)
        raise Unsupported(f"a {kind.__name__} in a call under a torch-function mode")


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
