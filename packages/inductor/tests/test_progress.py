"""Bars are for terminals alone, and change nothing of what is gone through."""

from __future__ import annotations

import io
import sys

import pytest

from inductor.progress import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal(), None])
def test_what_is_gone_through(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(shown([3, 1, 2], "counting")) == [3, 1, 2]
    assert list(shown([], "counting")) == []
    if stream is not None:
        assert ("counting" in stream.getvalue()) <= stream.isatty()
