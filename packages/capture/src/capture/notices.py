"""What users are told while a program runs: warnings about what was not captured, each shown at the user's line.

In: a message and the code it is about. Out: a ``CaptureWarning``, or, where filters make that an exception, a log record.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from types import CodeType
from typing import Any

_log = logging.getLogger("capture")
#: The filters of warnings that are not in force while a compiler works, the program's own first.
_set_aside: list[Any] = []


class CaptureWarning(UserWarning):
    """A part of a program runs in the interpreter although it was to be captured."""


def tell(message: str, code: CodeType) -> None:
    """Warn, at the function's first line. Never raises: the program's call is not to fail for it."""
    try:
        warnings.warn_explicit(message, CaptureWarning, code.co_filename, code.co_firstlineno)
    except Exception:
        _log.warning("%s (%s:%d)", message, code.co_filename, code.co_firstlineno)


@contextlib.contextmanager
def warnings_kept_from_raising() -> Iterator[None]:
    """Within, no warning is an exception by filters that are meant for programs: the work of a compiler may warn where eager
    does not. Filters that name another category than Python's own are meant for it.

    Filters are the process's, so they are touched only where one of them raises.
    """
    raising = [each for each in warnings.filters if each[0] == "error"]
    meant = [each for each in raising if each[2].__module__ != "builtins"]
    if len(meant) == len(raising):
        yield
        return
    _set_aside.append(warnings.filters)
    try:
        with warnings.catch_warnings():
            warnings.filters = meant
            warnings.simplefilter("ignore", append=True)
            yield
    finally:
        _set_aside.pop()


def filters_of_program() -> Any:
    """The filters of warnings as the program has them."""
    return _set_aside[0] if _set_aside else warnings.filters


@contextlib.contextmanager
def warnings_of_program() -> Iterator[None]:
    """Within, where a compiler works, the filters of warnings are the program's."""
    if not _set_aside:
        yield
        return
    with warnings.catch_warnings():
        warnings.filters = _set_aside[0]  # itself: what the program adds stays
        yield
