"""What raises by data does so where the program has it, through all parts: whatever compiled kernels do, and in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import raising
from raising import BAD, GOOD, told

import capture
import meta


@pytest.mark.parametrize("fn", raising.PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_raises_by_data(fn: Callable[..., Any]) -> None:
    capture.reset()
    compiled = meta.compile(fn)
    for i in (GOOD, BAD, GOOD):
        assert told(compiled, i) == told(fn, i)
