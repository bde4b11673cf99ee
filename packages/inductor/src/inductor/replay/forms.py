"""The forms of a graph: what was recorded for which sizes and numbers, and which of them make room for others.

Flows in: keys of calls. Flows out: the `Form` of each, as long as there is room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from inductor.replay.places import Reader
from inductor.replay.results import Results
from inductor.replay.twins import Filler
from symshapes import dataclass

MOST_FORMS = 8
"""Of one graph: so many different sizes have a recording each."""
MOST_MET = 32
"""So many more keys are remembered: one that is met again takes the place of the form that was used least recently."""
MOST_RECORDINGS = 4
"""Of one form: each time an input has moved that is not copied yet, it is recorded again."""
WORTH = 32
"""A recording that was replayed so often was worth it, and does not count among these."""
REST = 64
"""So many calls of a form that could not be recorded run as they are before it is tried again; then REST times as many."""


@dataclass
class Recording:
    """Launches, and the memory that they read and write."""

    replay: Callable[[], None]
    read: Reader
    """Reads where the inputs lie that are not copied."""
    places: Hashable
    """What it gave."""
    moved: tuple[int, ...]
    """Tensors among the inputs that are copied."""
    copies: list[torch.Tensor]
    fill_inputs: Filler
    shares: Callable[[list[Any]], bool] | None
    """Whether one that may share memory with no other does so, although all of those lie where they lay; None: it can't be."""
    results: Results
    replays: int = 0


class Form:
    """Inputs of certain sizes."""

    def __init__(self, owner: object | None, addresses: dict[int, int]) -> None:
        self.owner = owner
        """Stands for the recording whose results these inputs are."""
        self.addresses = addresses
        """Of the tensors of the first call."""
        self.moved: set[int] = set()
        self.recordings = 0
        self.recording: Recording | None = None
        self.resting = 0
        """Calls that run as they are from now on."""
        self._rest = REST

    def tire(self) -> None:
        """Let it rest: it could not be recorded. All begins anew after that."""
        self.resting, self._rest = self._rest, self._rest * REST
        self.moved.clear()
        self.recordings, self.recording = 0, None


class Forms:
    """Forms by key."""

    def __init__(self) -> None:
        self._forms: dict[Hashable, Form] = {}
        self._met: dict[Hashable, None] = {}

    def find(self, key: Hashable) -> Form | None:
        """The form of a key, which is the one used most recently from now on."""
        form = self._forms.get(key)
        if form is not None and len(self._forms) > 1:
            del self._forms[key]
            self._forms[key] = form
        return form

    def admits(self, key: Hashable) -> bool:
        """Whether there is a place for a new key: one is left, or the key has been met before and another form makes room."""
        if len(self._forms) < MOST_FORMS:
            return True
        if key in self._met:
            del self._met[key]
            del self._forms[next(iter(self._forms))]
            return True
        self._met[key] = None
        if len(self._met) > MOST_MET:
            del self._met[next(iter(self._met))]
        return False

    def add(self, key: Hashable, form: Form) -> None:
        """Take a form in; `admits` said so."""
        self._forms[key] = form

    def keep(self, owners: set[object]) -> None:
        """Drop the forms whose owners are none of these."""
        self._forms = {key: form for key, form in self._forms.items() if form.owner in owners}
