"""Handlers of signals that come while a compiler works run as they would in the program: on real tensors, outside all modes.

Flows in: the stretch of compiling. Nothing flows out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from . import _native, _torch, settings


class Interruptible(Protocol):
    """Whoever compiles."""

    #: Whether a handler has run, so that what was looked at may have changed.
    interrupted: bool
    #: The exception of one that raised: the program's.
    cut_short: BaseException | None


class _Outside:
    """In a handler's place for a stretch of compiling."""

    def __init__(self, stretch: _Stretch, handler: Any) -> None:
        self.stretch = stretch
        self.handler = handler

    def __call__(self, *given: Any) -> Any:
        return self.stretch.call(self.handler, given)


class _Stretch:
    """Of compiling, and what was in force as it began."""

    def __init__(self, told: Interruptible) -> None:
        self._told = told
        self._keys = _torch.dispatch_keys()
        self._settings = settings.in_force()
        self._function_modes = _torch.function_modes()
        self._in_place: list[tuple[int, Any, _Outside]] = []

    def begin(self) -> None:
        """Put ours in the place of the program's handlers."""
        handlers = _native.signal_handlers() or {}
        self._in_place = [
            (signal, handler, _Outside(self, handler))
            for signal, handler in handlers.items()
            if not isinstance(handler, _Outside)  # of a stretch around this one, or whose end was interrupted
        ]
        _native.exchange_handlers(self._in_place)

    def end(self) -> None:
        """Put the program's back, but where it has set another one."""
        _native.exchange_handlers([(signal, ours, handler) for signal, handler, ours in self._in_place])
        self._in_place = []  # which refer to this

    def call(self, handler: Any, given: tuple[Any, ...]) -> Any:
        """As if nothing compiled."""
        self._told.interrupted = True
        self.end()
        within, modes = settings.in_force(), _torch.function_modes()
        try:
            with _torch.outside_dispatch(self._keys):
                _torch.set_function_modes(self._function_modes)
                settings.put_back(self._settings)
                try:
                    return handler(*given)
                except BaseException as error:
                    self._told.cut_short = error
                    raise
                finally:
                    _torch.set_function_modes(modes)
                    settings.put_back(within)
        finally:
            self.begin()


@contextlib.contextmanager
def interruptions_outside(told: Interruptible) -> Iterator[None]:
    """For a stretch of compiling, which ends with the exception by which a handler cut it short, whatever became of that within."""
    told.interrupted, told.cut_short = False, None
    if _native.signal_handlers() is None:
        yield
        return
    stretch = _Stretch(told)
    stretch.begin()
    through: BaseException | None = None
    try:
        yield
    except BaseException as error:
        through = error
        raise
    finally:
        stretch.end()
        raised, told.cut_short = told.cut_short, None
        if raised is not None and raised is not through:
            raise raised from raised.__cause__
