"""The bar: there while steps are left, by tqdm if it is installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from inductor.progress import Progress


class Bar:
    made: list[Bar] = []

    def __init__(self, total: int, desc: str, unit: str, leave: bool, disable: object) -> None:
        assert disable is None, "nothing is shown where there is no terminal"
        self.total, self.done, self.closed = total, 0, False
        Bar.made.append(self)

    def refresh(self) -> None:
        assert not self.closed

    def update(self, count: int) -> None:
        self.done += count

    def close(self) -> None:
        self.closed = True


def test_a_bar_is_there_while_steps_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=Bar))
    monkeypatch.setattr(Bar, "made", [])
    progress = Progress("timing", "forms")
    progress.more(3)
    progress.done()
    progress.more(2)
    progress.done(3)
    (bar,) = Bar.made
    assert (bar.total, bar.done, bar.closed) == (5, 4, False)
    progress.done()
    assert bar.closed
    progress.more(1)
    assert len(Bar.made) == 2


def test_without_tqdm_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    absent: Any = None
    monkeypatch.setitem(sys.modules, "tqdm", absent)
    progress = Progress("timing", "forms")
    progress.more(1)
    progress.done()


def test_what_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it ends before."""
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=Bar))
    monkeypatch.setattr(Bar, "made", [])
    progress = Progress("timing", "forms")
    assert list(progress.over([3, 1, 2])) == [3, 1, 2] and list(progress.over([])) == []
    for item in (items := progress.over([3, 1, 2])):
        if item == 1:
            break
    items.close()
    assert [(bar.total, bar.done, bar.closed) for bar in Bar.made if bar.total] == [(3, 3, True)] * 2
    assert all(bar.closed for bar in Bar.made)
