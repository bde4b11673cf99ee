"""Handlers of signals that come while a compiler works run as they would in the program: on real tensors, outside all modes.

Flows in: the stretch of compiling. Out: whether a handler came, and the exception by which one cut it short.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from . import _native, _torch, settings
from .notices import warnings_of_program


class _Told:
    """Of one stretch of compiling."""

    def __init__(self, *, over: bool = False) -> None:
        #: Whether a handler has run, so that what was looked at may have changed.
        self.interrupted = False
        #: The exception of one that raised: the program's.
        self.cut_short: BaseException | None = None
        self.over = over

    def hear(self, raised: BaseException | None, interrupted: bool = True) -> None:
        """Of a handler that came within."""
        self.interrupted |= interrupted
        if self.cut_short is None:
            self.cut_short = raised


class _Here(threading.local):
    """A thread's: handlers come in one thread, and what they do says nothing of what others compile."""

    #: Of the innermost stretch that goes on, else of the last one.
    told = _Told(over=True)


_here = _Here()


def interrupted() -> bool:
    """Whether a handler came in the stretch of compiling that this thread is in, or was in last."""
    return _here.told.interrupted


def cut_short() -> bool:
    """Whether a handler raised in the stretch of compiling that this thread is in."""
    return _here.told.cut_short is not None


class _Outside:
    """In a handler's place for a stretch of compiling."""

    def __init__(self, stretch: _Stretch, handler: Any) -> None:
        self.stretch = stretch
        self.handler = handler

    def __call__(self, *given: Any) -> Any:
        return self.stretch.call(self.handler, given)


class _Stretch:
    """Of compiling, and what was in force as it began. A signal may come between any two calls of these functions, too."""

    def __init__(self, told: _Told) -> None:
        self.told = told
        self._keys = _torch.dispatch_keys()
        self._settings = settings.in_force()
        self._function_modes = _torch.function_modes()
        #: All that were in a handler's place: a signal that comes as they are exchanged may have the same ones exchanged.
        self._in_place: list[tuple[int, Any, _Outside]] = []

    def begin(self, before: Mapping[int, Any] | None = None) -> None:
        """Put ours in the place of the program's handlers; those that were in force ``before``, without ours, are the compiler's own."""
        handlers = _native.signal_handlers() or {}
        self._in_place = [each for each in self._in_place if any(handlers.get(each[0]) is one for one in each[1:])]
        for signal, handler in handlers.items():
            if isinstance(handler, _Outside):  # of a stretch around this one, or whose end an interrupt cut short
                if not handler.stretch.told.over:
                    continue
                _native.exchange_handlers([(signal, handler, handler.handler)])
                handler = handler.handler
            known = any(at == signal and each is handler for at, each, _ in self._in_place)
            if not known and (before is None or before.get(signal) is not handler):
                self._in_place.append((signal, handler, _Outside(self, handler)))
        _native.exchange_handlers(self._in_place)

    def give_back(self) -> None:
        """Put the program's back, but where it has set another one."""
        _native.exchange_handlers([(signal, ours, handler) for signal, handler, ours in self._in_place])

    def end(self) -> None:
        """Let go of the handlers as well, which refer to this."""
        self.give_back()
        self._in_place = []

    def call(self, handler: Any, given: tuple[Any, ...]) -> Any:
        """As if nothing compiled."""
        self.give_back()
        if self.told.over:  # somebody took ours for the program's, or this comes in the middle of the end
            return handler(*given)
        before = _native.signal_handlers() or {}
        around, _here.told = _here.told, _Told()
        raised: BaseException | None = None
        within, modes = settings.in_force(), _torch.function_modes()
        try:
            with _torch.outside_dispatch(self._keys), warnings_of_program():
                _torch.set_function_modes(self._function_modes)
                settings.put_back(self._settings)
                try:
                    return handler(*given)
                except BaseException as error:
                    raised = error
                    raise
                finally:
                    _torch.set_function_modes(modes)
                    settings.put_back(within)
        finally:
            _here.told = around
            for told in (around, self.told):
                told.hear(raised)
            self.begin(before)


@contextlib.contextmanager
def interruptions_outside() -> Iterator[None]:
    """For a stretch of compiling, which ends with the exception by which a handler cut it short, whatever became of that within."""
    around, told = _here.told, _Told()
    _here.told = told
    stretch = None if _native.signal_handlers() is None else _Stretch(told)
    through: BaseException | None = None
    try:
        if stretch is not None:
            stretch.begin()
        yield
    except BaseException as error:
        through = error
        raise
    finally:
        told.over = True  # before anything that can be interrupted
        if stretch is not None:
            stretch.end()
        raised, told.cut_short = told.cut_short, None
        if not around.over:
            around.hear(raised, told.interrupted)
            _here.told = around
        if raised is not None and raised is not through:
            raise raised from raised.__cause__
