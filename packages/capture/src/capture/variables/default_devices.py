"""What ``with torch.device(...)`` enters: the mode that makes tensors there. Torch's own asks for what is computed once a process."""

from __future__ import annotations

import torch

from capture import _torch
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant, Known
from .handlers import handles
from .mappings import Dict
from .sequences import Tuple


@handles(_torch.device_constructors)
def _constructors(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args or kwargs:
        raise Unsupported("what a torch-function mode of a device asks, with arguments")
    return m.builder.known(_torch.device_constructors())  # the same set each time


class DefaultDevice(Variable):
    """The mode of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def python_type(self) -> type:
        return _torch.DEVICE_MODE

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "device":
            return Constant(self.device)
        if name in ("__torch_function__", "__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        raise Unsupported(f"{name} of the mode of a default device")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__enter__":
            if m.modes.count or _torch.torch_function_depth():
                raise Unsupported("a default device within other torch-function modes, beneath which it is put")
            m.modes.enter(self)
            return Constant(None)
        if name == "__exit__":
            if m.modes.count != 1 or m.modes.leave() is not self:
                raise Unsupported("a default device that is left within other torch-function modes")
            return Constant(None)
        return self.apply(m, args, kwargs)

    def apply(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """What it makes of a call: the function, types, positional arguments and those by name, if any."""
        function, _, positional, *rest = (arg.realize(m) for arg in args)
        named = rest[0] if rest else Constant(None)
        given = (
            {m.builder.to_python(key): value for key, value in named.entries.values()}
            if isinstance(named, Dict)
            else {}
        )
        if kwargs or not isinstance(positional, Tuple):
            raise Unsupported("a call under a default device")
        makes = isinstance(function, Known) and function.value in _torch.device_constructors()
        if makes and ("device" not in given or m.builder.is_none(given["device"])):
            given["device"] = Constant(self.device)
        return m.calls.call(function, list(positional.items), given)


@handles(_torch.DEVICE_MODE)
def _mode(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Made by itself it is to be the default from here on (``torch.set_default_device``), until another is."""
    (device,) = [*args, *kwargs.values()] if len(args) + len(kwargs) == 1 else [Constant(None)]
    made: Variable = m.effects.created(DefaultDevice(m.builder.fold(torch.device, [m.builder.to_python(device)])))
    return made
