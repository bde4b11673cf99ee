"""`Replayed`: runs a compiled graph once, records its second run, and replays that from then on.

Flows in: a compiled graph and a `Recorder` for its device. Flows out: a callable like the graph's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from inductor.replay.forms import MOST_RECORDINGS, WORTH, Form, Forms, Recording
from inductor.replay.places import Reader, shared, storage_of
from inductor.replay.results import Results, Unreplayable
from inductor.replay.saved import SavedMemory
from inductor.replay.twins import Filler, extent, twins

_log = logging.getLogger("inductor")

Run = Callable[[list[Any]], Sequence[Any]]


class Recorder(Protocol):
    """Records launches on one device. Recordings share memory: one is replayed, and its results are taken, before another is."""

    lock: AbstractContextManager[Any]
    """Held while something is recorded or replayed, and its results are taken."""

    def busy(self) -> bool:
        """Whether the current stream is being recorded."""
        ...

    def aside(self, run: Callable[[], Any]) -> Any:
        """What `run` gives, on the stream that recordings are made on, after all earlier replays; the current one waits for it."""
        ...

    def record(self, run: Callable[[], Any], apart: bool) -> tuple[Callable[[], None], Any]:
        """What replays the launches of `run`, none of which happens now, and what `run` gives.

        Args:
            apart: in memory that no other recording uses.

        Raises:
            Exception: that of `run`, or of a launch that can't be recorded; then nothing is recorded.
        """
        ...

    def order(self) -> None:
        """What the current stream does from here on comes after all earlier replays."""
        ...

    def reader(self, at: tuple[int, ...]) -> Reader:
        """What reads where the tensors at these positions of a list of inputs lie: `inductor.replay.places.reader`, or faster."""
        ...


MOST_COPIED = 256 << 20
"""Bytes of inputs that are copied before a replay, since they lie elsewhere than when it was recorded."""


class Replayed:
    """A compiled graph whose launches are recorded. Called with one list of inputs, which it empties.

    The first call of each form runs the graph; the second one records it. An input that lies where it lay before is read there;
    one that has moved is copied to where the recording reads it. Results are new memory at each call, but for those that are
    kept for a backward: as long as somebody holds those of a recording the graph runs as it is.

    Args:
        compiled: the graph. The results that it names in `written_results` are inputs, which are written to where they lie.
        settle: raises what kernels of earlier calls met (positions out of range).
        example_inputs: what the graph was compiled for, fake or real.
        apart: inputs that may share memory with no other: where they do nothing runs, and the result is None (`tells_shared`).
        kept: results that only backwards read. They are recorded in memory of their own.
        saved: inputs that are such results. The graph is recorded for those of recordings, each by itself, and for no others.
        memory: knows those; a forward's and its backwards'.
    """

    def __init__(
        self,
        compiled: Run,
        recorder: Recorder,
        settle: Callable[[], None],
        example_inputs: Sequence[Any],
        *,
        apart: Collection[int] = (),
        kept: Collection[int] = (),
        saved: Collection[int] = (),
        memory: SavedMemory | None = None,
    ) -> None:
        self._compiled = compiled
        self._recorder = recorder
        self._settle = settle
        self._numbers = [at for at, value in enumerate(example_inputs) if not isinstance(value, torch.Tensor)]
        self._changing = [at for at, value in enumerate(example_inputs) if _changes(value)]
        self._apart = tuple(apart)
        self.tells_shared = bool(apart)
        self._kept = frozenset(kept)
        self._saved = tuple(saved)
        self._memory = memory or SavedMemory()
        self._trains = memory is not None
        self.written_results: tuple[int, ...] = tuple(getattr(compiled, "written_results", ()))
        self._written_inputs: frozenset[int] = frozenset()
        """Once it has run."""
        self._forms = Forms()
        self._told: set[str] = set()

    def __call__(self, inputs: list[Any]) -> Sequence[Any] | None:
        if self._recorder.busy():
            return self._as_it_is(inputs)
        with self._recorder.lock:
            return self._run(inputs)

    def _run(self, inputs: list[Any]) -> Sequence[Any] | None:
        self._settle()  # what an earlier call met is told before this one meets it again
        owner = None
        if self._saved and (owner := self._memory.owner_of(inputs, self._saved)) is None:
            return self._as_it_is(inputs)
        key = self._key(inputs, owner)
        form = self._forms.find(key)
        if form is None:
            return self._met(key, owner, inputs)
        recording = form.recording
        if form.resting:
            form.resting -= 1
            return self._ordered(inputs)
        if recording is not None and recording.results.lent.held():
            return self._ordered(inputs)
        if recording is None or recording.read(inputs) != recording.places:
            if shared(inputs, self._apart):
                return None
            recording = None  # its memory is used again
            try:
                self._record(form, inputs)
            except Unreplayable as why:
                self._tell(why)
                form.tire()
                return self._ordered(inputs)
            recording = form.recording
            assert recording is not None
        elif recording.shares is not None and recording.shares(inputs):
            return None
        return self._replay(recording, inputs)

    def _key(self, inputs: list[Any], owner: object | None) -> Hashable:
        """What tells forms apart: the numbers given, sizes that may change, and whose results inputs are."""
        if not (self._numbers or self._changing):
            return owner
        numbers = tuple(_told_apart(inputs[at]) for at in self._numbers)
        return owner, numbers, tuple((inputs[at].shape, inputs[at].stride()) for at in self._changing)

    def _as_it_is(self, inputs: list[Any]) -> Sequence[Any] | None:
        """The graph, launched by the host."""
        return None if shared(inputs, self._apart) else self._compiled(inputs)

    def _ordered(self, inputs: list[Any]) -> Sequence[Any] | None:
        """The same where inputs may be results of a recording: what replays overwrite them comes after this stream."""
        self._recorder.order()
        return self._as_it_is(inputs)

    def _tell(self, why: Unreplayable) -> None:
        """Say it once."""
        if str(why) not in self._told:
            self._told.add(str(why))
            _log.warning("not recorded, each launch is the host's: %s", why)

    def _met(self, key: Hashable, owner: object | None, inputs: list[Any]) -> Sequence[Any] | None:
        """The first call of a form."""
        if shared(inputs, self._apart):
            return None
        if owner is not None:
            self._forms.keep(self._memory.forget_dead())
        if not self._forms.admits(key):
            return self._ordered(inputs)
        form = Form(owner, _addresses(inputs))
        run = self._ordered if self._trains else self._first
        if self.written_results:
            given = list(inputs)
            results = run(inputs)
            assert results is not None
            places = {id(value): at for at, value in enumerate(given)}
            self._written_inputs = frozenset(places[id(results[at])] for at in self.written_results)
        else:
            results = run(inputs)
        self._forms.add(key, form)
        return results

    def _first(self, inputs: list[Any]) -> Sequence[Any]:
        """The graph as it is, on the recorder's stream: what libraries prepare for a stream is there when it is recorded."""
        given = list(inputs)  # until the program's stream, whose memory they are, has waited
        ids = {*map(id, given)}
        results = list(self._recorder.aside(lambda: self._compiled(inputs)))
        own = [at for at, value in enumerate(results) if isinstance(value, torch.Tensor) and id(value) not in ids]
        tensors = [results[at] for at in own]
        fresh = twins(tensors)
        Filler(tensors)(fresh, tensors)  # memory of the stream that the program works on
        for at, made in zip(own, fresh, strict=True):
            results[at] = made
        return tuple(results)

    def _record(self, form: Form, inputs: list[Any]) -> None:
        """Record the form for where these inputs lie. Nothing else may hold the recording it had: its memory is used again.

        Raises:
            Unreplayable: it can't be, or was too often.
        """
        if form.recording is not None and form.recording.replays >= WORTH:
            form.recordings -= 1
        if form.recordings == MOST_RECORDINGS:
            raise Unreplayable(f"its inputs moved soon after each of {MOST_RECORDINGS} recordings")
        now = _addresses(inputs)
        form.moved |= {at for at, address in now.items() if form.addresses[at] != address}
        form.recordings += 1
        if form.recordings == MOST_RECORDINGS:  # the last one bears anything
            form.moved |= now.keys()
        form.addresses, form.recording = now, None
        form.moved.difference_update(self._written_inputs)  # what is written to is so where it lies
        moved = tuple(sorted(form.moved))
        bytes = sum(extent(inputs[at]) * inputs[at].element_size() for at in moved)
        if bytes > MOST_COPIED:
            raise Unreplayable(f"{bytes >> 20} MiB of inputs lie elsewhere from call to call")
        given = [inputs[at] for at in moved]
        # Memory of the recorder's stream: it is used again, once the recording is gone, after all that read it here.
        copies = self._recorder.aside(lambda: _outside_of_modes(given))
        places = list(inputs)
        for at, copy in zip(moved, copies, strict=True):
            places[at] = copy
        self._settle()
        try:
            replay, results = self._recorder.record(lambda: tuple(self._compiled(list(places))), bool(self._kept))
        except Exception as error:
            raise Unreplayable(f"{type(error).__name__}: {error}") from error
        fixed = tuple(at for at in now if at not in form.moved)
        results = Results(results, places, copies, self._kept)
        form.recording = Recording(
            replay,
            read := self._recorder.reader(fixed),
            read(inputs),
            moved,
            copies,
            Filler(copies),
            self._shares(inputs, moved),
            results,
        )
        if self._kept:
            self._memory.add(results.lent)

    def _shares(self, inputs: list[Any], moved: tuple[int, ...]) -> Callable[[list[Any]], bool] | None:
        """See `Recording.shares`."""
        if not self._apart or not moved:
            return None
        if not frozenset(moved).isdisjoint(self._apart):
            return lambda inputs: shared(inputs, self._apart)
        written = {storage_of(inputs[at]) for at in self._apart} - {0}
        return lambda inputs: any(storage_of(inputs[at]) in written for at in moved) and shared(inputs, self._apart)

    def _replay(self, recording: Recording, inputs: list[Any]) -> Sequence[Any]:
        self._recorder.order()
        if recording.moved:
            recording.fill_inputs(recording.copies, [inputs[at] for at in recording.moved])
        given = recording.results.given(inputs)
        recording.replay()
        inputs.clear()
        recording.replays += 1
        results = recording.results.taken(given)
        self._settle()
        return results


def _told_apart(number: Any) -> Hashable:
    """What is equal for the same number alone: 0.0 is not -0.0, and NaN is itself."""
    return number.hex() if type(number) is float else (type(number), number)


def _changes(value: Any) -> bool:
    """Whether a tensor's sizes may change from call to call."""
    return isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


def _addresses(inputs: list[Any]) -> dict[int, int]:
    return {at: value.data_ptr() for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}


def _outside_of_modes(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Twins that may be written to in inference mode and outside of it."""
    with torch.inference_mode(False):
        return twins(tensors)
