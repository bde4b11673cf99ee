"""Blocks in which torch asks no class of tensors what an operation comes to, nor modes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capture import _torch
from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import Handler, handles
from .reconstruction import Emitter


class FunctionSwitch(Variable):
    """One of the blocks in which classes of tensors are not asked, nor modes; it is not entered wherever the graph ends."""

    manages_context = True

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__enter__" and not args and not kwargs:
            m.modes.switch_off(self.cls is not _torch.without_overrides)
        elif name == "__exit__" and len(args) == 3 and not kwargs:
            m.modes.switch_back()
        else:
            raise Unsupported(f"{name} of what switches __torch_function__ off")
        return Constant(None)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls)), build.call(0))


def _switching(cls: Any) -> Handler:
    def switch(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if args or kwargs:
            raise Unsupported("what switches __torch_function__ off, called with arguments")
        return m.effects.created(FunctionSwitch(cls))

    return switch


for _switch in _torch.function_switches:
    handles(_switch)(_switching(_switch))
