"""Torch's own switches, by which its libraries choose kernels, as a frame sets them: for real while it is evaluated.

In: calls of what sets one, and of what reads one. Out: calls in the graph; what must hold where the frame begins; all as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from capture._torch import SWITCHES, switch_values
from capture.errors import Unsupported
from symshapes import Switch

_BY_READER = {reader: setter for setter, reader in SWITCHES.items()}


class Switches:
    """Those that one attempt has set."""

    def __init__(self) -> None:
        #: In the order in which the frame sets them.
        self.made: list[Switch] = []
        self._undo: list[Switch] = []
        self._before: dict[tuple[Any, tuple[Any, ...]], Any] = {}

    def set(self, setter: Callable[..., Any], args: tuple[Any, ...], value: Any) -> Switch:
        """Set one; raises what the setter raises."""
        if value is None:  # by which is meant that there is nothing to set
            raise Unsupported(f"{setter.__name__} of None")
        switch = Switch(SWITCHES[setter], setter, args, value)
        self._before = self._before or switch_values()
        back = switch.back()
        switch()
        self._undo.append(back)
        self.made.append(switch)
        return switch

    def entered_with(self, reader: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What was in force where the frame began. Raises ``LookupError`` where that is not known."""
        return self._before[(reader, args)] if self.made else reader(*args)

    def undo(self) -> None:
        """Put all back, also what one of them had changed with another."""
        if not self._undo:
            return
        for switch in reversed(self._undo):
            switch()
        self._undo.clear()
        now = switch_values()
        for (reader, args), value in self._before.items():
            if value is not None and now.get((reader, args)) != value:
                _BY_READER[reader](*args, value)
