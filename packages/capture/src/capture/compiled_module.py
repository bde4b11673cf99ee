"""The module that ``compile`` gives for a module: its calls are captured, everything else is the original's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class CompiledModule(torch.nn.Module):
    """A module whose calls are captured. Everything else (parameters, ``train()``, attributes) is the original's.

    ``compile`` makes a subclass per module, whose ``__call__`` is the native entry itself.
    """

    def __init__(self, original: torch.nn.Module, session: object) -> None:
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "session", session)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "original"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.original, name)

    def __repr__(self) -> str:
        return f"CompiledModule({self.original!r})"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.original), "original", "session"})

    def __reduce__(self) -> Any:
        raise TypeError("a compiled module cannot be pickled: pickle its .original or its state_dict()")

    def train(self, mode: bool = True) -> CompiledModule:
        self.original.train(mode)
        return self

    def eval(self) -> CompiledModule:
        return self.train(False)

    def apply(self, fn: Callable[[torch.nn.Module], None]) -> CompiledModule:
        self.original.apply(fn)
        return self

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> CompiledModule:
        self.original._apply(fn, recurse)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> CompiledModule:
        self.original.requires_grad_(requires_grad)
        return self


def _forward(name: str) -> Callable[..., Any]:
    def method(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.original, name)(*args, **kwargs)

    method.__name__ = name
    return method


_OWN = frozenset({*vars(CompiledModule), "to", "cpu", "cuda", "double", "float", "half", "bfloat16", "type"})
for _name, _value in list(vars(torch.nn.Module).items()):
    if callable(_value) and _name not in _OWN and not _name.startswith("__"):
        setattr(CompiledModule, _name, _forward(_name))
