"""Every test raises where the compiler would fall back to eager, and starts with no compiled code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import capture
import meta


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    before = capture.config.on_error
    capture.config.on_error = "raise"
    meta.reset()
    yield
    capture.config.on_error = before
