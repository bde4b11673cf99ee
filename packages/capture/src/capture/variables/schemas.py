"""What an operator's schema says, which nothing changes: read for real."""

from __future__ import annotations

import torch

from capture import _torch
from capture.errors import Unsupported
from capture.sources import Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, converts
from .constants import BoundBuiltin, Known

_PARTS = (torch.FunctionSchema, torch.Argument, _torch.ALIAS_INFO, torch.Type, *torch.Type.__subclasses__())


class Schema(Known):
    """An operator's schema, or what it says of an argument."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if callable(getattr(self.value, name, None)):
            return BoundBuiltin(self, name)
        return m.builder.from_python(m.builder.fold(getattr, [self.value, name]))

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if args or kwargs:
            raise Unsupported(f"{name}() of a {type(self.value).__name__}, with arguments")
        return m.builder.from_python(m.builder.fold(lambda: getattr(self.value, name)(), []))


@converts(*_PARTS)
def _computed(m: Interpreter, value: object) -> Variable:
    return Schema(value)


@builds(*_PARTS)
def _build(m: Interpreter, value: object, source: Source | None) -> Variable:
    return m.builder.identified(Schema(value), source)
