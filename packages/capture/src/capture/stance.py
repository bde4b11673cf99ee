"""What compiled callables do, process-wide: capture as usual, run eagerly, or use only what was captured.

In: `set_stance`. Out: what the session asks before it captures a frame; `_native` knows by itself where nothing is to be captured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from . import _native
from ._torch import torch_stance

F = TypeVar("F", bound=Callable[..., Any])

#: Each with what `_native` makes of it.
STANCES = {"default": 0, "force_eager": 1, "eager_on_recompile": 2, "fail_on_recompile": 0}

_in_force = "default"


def stance_in_force() -> str:
    """The name of the stance that holds now; where it is the default, ``torch.compiler``'s own holds here, too."""
    return torch_stance() if _in_force == "default" else _in_force


def _set(stance: str) -> str:
    global _in_force
    before, _in_force = _in_force, stance
    _native.set_stance(STANCES[stance])
    return before


class set_stance:
    """Set what all compiled callables of the process do from now on; as a context manager or decorator, within it.

    ``"default"`` captures what fits nothing yet. ``"force_eager"`` runs everything as if it were not compiled.
    ``"eager_on_recompile"`` runs what was captured, and eagerly what would be captured anew, ``fullgraph`` or not.
    ``"fail_on_recompile"`` raises ``RecompileError`` there, with the guard that failed. Calls that are running are not changed.

    Raises ``ValueError`` for any other.
    """

    def __init__(self, stance: str = "default") -> None:
        if stance not in STANCES:
            raise ValueError(f"unknown stance {stance!r}; the stances are {', '.join(STANCES)}")
        self.stance = stance
        self._before = _set(stance)

    def __enter__(self) -> None:
        _set(self.stance)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _set(self._before)

    def __call__(self, fn: F) -> F:
        _set(self._before)
        stance = self.stance

        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return fn(*args, **kwargs)

        return within  # type: ignore[return-value]
