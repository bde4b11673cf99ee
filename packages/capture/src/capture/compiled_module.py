"""The module that ``compile`` gives for a module: its calls are captured, everything else is the original's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch


class CompiledModule(torch.nn.Module):
    """A module whose calls are captured. Everything else (parameters, ``train()``, attributes) is the original's.

    To ``isinstance`` it is of the original's class; ``type()`` tells. Inside another module it takes the original's
    place: the names of parameters, and so the keys of a ``state_dict``, are those without ``compile``.
    ``compile`` makes a subclass per module, whose ``__call__`` is the native entry itself.
    """

    def __init__(self, original: torch.nn.Module, session: object) -> None:
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "session", session)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self.original.__class__

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.forward)

    @property
    def forward(self) -> Callable[..., Any]:  # type: ignore[override]
        """The compiled call."""
        return type(self).__call__

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

    def requires_grad_(self, requires_grad: bool = True) -> CompiledModule:
        self.original.requires_grad_(requires_grad)
        return self


class DisabledModule(CompiledModule):
    """What ``disable`` gives for a module: its calls are kept out of graphs, everything else is the original's."""

    def __init__(self, original: torch.nn.Module, reason: str | None) -> None:
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "reason", reason)

    def __repr__(self) -> str:
        return f"DisabledModule({self.original!r})"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.original), "original", "reason"})


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self.original, name)(*args, **kwargs)
        return self if result is self.original else result

    method.__name__ = name
    return method


def special_methods(cls: type) -> dict[str, Callable[..., Any]]:
    """Forwards of what Python looks up in a module's class: ``len()``, indexing, iteration, ``with`` ..."""
    found: dict[str, Callable[..., Any]] = {}
    for base in cls.__mro__[: cls.__mro__.index(torch.nn.Module)]:
        for name, value in vars(base).items():
            if name.startswith("__") and name.endswith("__") and name not in _OWN_SPECIAL and callable(value):
                found.setdefault(name, _forwarded(name))
    return found


#: Special methods that say what the object is, and are never the original's.
_OWN_SPECIAL = frozenset(
    {
        *(name for name in vars(CompiledModule) if name.startswith("__")), "__call__", "__new__", "__del__",
        "__getattribute__", "__init_subclass__", "__class_getitem__", "__subclasshook__", "__prepare__", "__set_name__",
        "__getstate__", "__setstate__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__sizeof__",
        "__reduce__", "__reduce_ex__", "__copy__",
    }
)  # fmt: skip

#: Methods of ``torch.nn.Module`` that work through others of the compiled module.
_THROUGH_OTHERS = frozenset({*vars(CompiledModule), "to", "cpu", "cuda", "double", "float", "half", "bfloat16", "type"})

for _name, _value in list(vars(torch.nn.Module).items()):
    if callable(_value) and _name not in _THROUGH_OTHERS and not _name.startswith("__"):
        setattr(CompiledModule, _name, _forwarded(_name))
