"""Blocks in which torch asks no class of tensors what an operation comes to, nor modes."""

from __future__ import annotations

from typing import Any

from capture import _torch
from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .blocks import Block
from .handlers import Handler, handles
from .reconstruction import Emitter


class FunctionSwitch(Block):
    """One of the blocks in which classes of tensors are not asked, nor modes."""

    told = "what switches __torch_function__ off"

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def enter(self, m: Interpreter) -> None:
        m.modes.switch_off(self.cls is not _torch.without_overrides)

    def leave(self, m: Interpreter) -> None:
        m.modes.switch_back()

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
