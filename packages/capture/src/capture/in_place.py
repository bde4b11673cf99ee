"""A module compiled in its own place: its calls are captured, and it stays the object that it is.

In: a module and a session's choices. Out: the same module; its copies, pickled ones too, are compiled again.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from .compiled import Choices, compiled_call, group_of
from .compiled_module import CompiledModule
from .target import entered_in_place

#: Where ``torch.nn.Module.__call__`` looks for a call to make in place of its own.
_CALL = "_compiled_call_impl"
#: Where a module keeps how it is compiled: torch leaves the call itself out of what is copied and pickled.
_CHOICES = "_compiled_in_place"


class InPlace:
    """In a module's dictionary: how it is compiled. Copied or pickled with it, the copy is compiled, too."""

    def __init__(self, module: torch.nn.Module, choices: Choices) -> None:
        self._module = weakref.ref(module)
        self._choices = choices

    def __reduce__(self) -> tuple[Any, ...]:
        module = self._module()
        return (_again, (module, self._choices)) if module is not None else (_gone, ())


def compiled_in_place(module: torch.nn.Module, choices: Choices) -> None:
    """Have calls of the module captured from now on."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"compile_module() needs a module, not {type(module).__name__}")
    if isinstance(module, CompiledModule):
        module = module.original
    _again(module, choices)


def _again(module: torch.nn.Module, choices: Choices) -> InPlace:
    """The module may still be without its state, which is then put in beside this."""
    call = compiled_call(getattr(module, "_call_impl"), choices, group_of(choices), entered_in_place(module))  # noqa: B009
    kept = InPlace(module, choices)
    vars(module).update({_CALL: call, _CHOICES: kept})
    return kept


def _gone() -> None:
    return None
