"""Every test of the evaluator turns failures inside it into exceptions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import capture


@pytest.fixture(autouse=True)
def _raise_on_error() -> Iterator[None]:
    before = capture.config.on_error
    capture.config.on_error = "raise"
    yield
    capture.config.on_error = before
    capture.reset()
