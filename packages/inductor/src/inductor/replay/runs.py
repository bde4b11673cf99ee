"""`Replayed`: runs a compiled graph once, records its second run, and replays that from then on.

Flows in: a compiled graph and a `Recorder` for its device. Flows out: a callable like the graph's.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

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

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """What replays the launches of `run`, none of which happens now, and what `run` gives.

        Raises:
            Exception: that of `run`, or of a launch that can't be recorded; then nothing is recorded.
        """
        ...

    def order(self) -> None:
        """What the current stream does from here on comes after all earlier replays."""
        ...


MOST_FORMS = 8
"""Of one graph: so many different sizes have a recording each, and others run as they are."""
MOST_RECORDINGS = 4
"""Of one form: each time an input has moved that is not copied yet, it is recorded again."""
MOST_COPIED = 256 << 20
"""Bytes of inputs that are copied before a replay, since they lie elsewhere than when it was recorded."""


class Unreplayable(Exception):
    """A graph's launches can't be recorded; the message says why."""


@dataclass
class _Recording:
    """Launches, and the memory that they read and write."""

    replay: Callable[[], None]
    fixed: Callable[[list[Any]], tuple[Any, ...]]
    """The tensors among the inputs that are read where they lie."""
    addresses: list[int]
    """Of these."""
    moved: tuple[int, ...]
    """Tensors among the inputs that are copied."""
    copies: list[torch.Tensor]
    fill_inputs: Filler
    results: tuple[Any, ...]
    """Where the launches leave them: overwritten by each replay, and by those of other graphs."""
    tensors: tuple[int, ...]
    """Which of the results are tensors in memory of the recording's, and not sizes, None or inputs that are written to."""
    fill_results: Filler


class _Form:
    """Inputs of certain sizes."""

    def __init__(self, addresses: dict[int, int]) -> None:
        self.addresses = addresses
        """Of the tensors of the first call."""
        self.moved: set[int] = set()
        self.recordings = 0
        self.recording: _Recording | None = None


class Replayed:
    """A compiled graph whose launches are recorded. Called with one list of inputs, which it empties.

    The first call of each form runs the graph; the second one records it. An input that lies where it lay before is read there;
    one that has moved is copied to where the recording reads it. Results are new memory at each call.

    Args:
        compiled: the graph. The results that it names in `written_results` are inputs, which are written to where they lie.
        settle: raises what kernels of earlier calls met (positions out of range).
        example_inputs: what the graph was compiled for, fake or real.
    """

    def __init__(
        self, compiled: Run, recorder: Recorder, settle: Callable[[], None], example_inputs: Sequence[Any]
    ) -> None:
        self._compiled = compiled
        self._recorder = recorder
        self._settle = settle
        self._numbers = [at for at, value in enumerate(example_inputs) if not isinstance(value, torch.Tensor)]
        self._changing = [at for at, value in enumerate(example_inputs) if _changes(value)]
        self.written_results: tuple[int, ...] = tuple(getattr(compiled, "written_results", ()))
        self._written: dict[int, int] = {}
        """For each of these, once it has run, which input it is."""
        self._forms: dict[Hashable, _Form] = {}
        self._given_up = False

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if self._given_up or self._recorder.busy():
            return self._compiled(inputs)
        with self._recorder.lock:
            return self._run(inputs)

    def _run(self, inputs: list[Any]) -> Sequence[Any]:
        self._settle()  # what an earlier call met is told before this one meets it again
        key = self._key(inputs)
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) == MOST_FORMS:
                return self._compiled(inputs)
            form = _Form(_addresses(inputs))
            results = self._first(inputs)
            self._forms[key] = form
            return results
        if form.recording is None or [*map(_address, form.recording.fixed(inputs))] != form.recording.addresses:
            try:
                self._record(form, inputs)
            except Unreplayable as why:
                _log.warning("not recorded, each launch is the host's: %s", why)
                self._given_up = True
                self._forms.clear()
                return self._compiled(inputs)
        assert form.recording is not None
        return self._replay(form.recording, inputs)

    def _key(self, inputs: list[Any]) -> Hashable:
        """What tells forms apart: the numbers given, and sizes that may change."""
        numbers = tuple(_told_apart(inputs[at]) for at in self._numbers)
        return numbers, tuple((inputs[at].shape, inputs[at].stride()) for at in self._changing)

    def _first(self, inputs: list[Any]) -> Sequence[Any]:
        """The graph as it is, on the recorder's stream: what libraries prepare for a stream is there when it is recorded."""
        given = list(inputs)  # until the program's stream, whose memory they are, has waited
        places = {id(value): at for at, value in enumerate(given)}
        results = list(self._recorder.aside(lambda: self._compiled(inputs)))
        self._written = {at: places[id(results[at])] for at in self.written_results}
        own = self._own(results)
        tensors = [results[at] for at in own]
        fresh = twins(tensors)
        Filler(tensors)(fresh, tensors)  # memory of the stream that the program works on
        for at, made in zip(own, fresh, strict=True):
            results[at] = made
        return tuple(results)

    def _own(self, results: Sequence[Any]) -> tuple[int, ...]:
        """Which results are tensors in memory that the graph allocates."""
        return tuple(
            at for at, result in enumerate(results) if isinstance(result, torch.Tensor) and at not in self._written
        )

    def _record(self, form: _Form, inputs: list[Any]) -> None:
        """Record the form for where these inputs lie. Nothing else may hold the recording it had: its memory is used again.

        Raises:
            Unreplayable: it can't be, or was too often.
        """
        if form.recordings == MOST_RECORDINGS:
            raise Unreplayable(f"its inputs moved after each of {MOST_RECORDINGS} recordings")
        now = _addresses(inputs)
        form.moved |= {at for at, address in now.items() if form.addresses[at] != address}
        form.recordings += 1
        if form.recordings == MOST_RECORDINGS:  # the last one bears anything
            form.moved |= now.keys()
        form.moved.difference_update(self._written.values())  # what is written to is so where it lies
        form.addresses, form.recording = now, None
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
            replay, results = self._recorder.record(lambda: tuple(self._compiled(list(places))))
        except Exception as error:
            raise Unreplayable(f"{type(error).__name__}: {error}") from error
        tensors = self._own(results)
        _require_own_memory([results[at] for at in tensors], [t for t in places if isinstance(t, torch.Tensor)])
        fixed = tuple(at for at in now if at not in form.moved)
        form.recording = _Recording(
            replay,
            _getter(fixed),
            [now[at] for at in fixed],
            moved,
            copies,
            Filler(copies),
            tuple(None if at in self._written else result for at, result in enumerate(results)),
            tensors,
            Filler([results[at] for at in tensors]),
        )

    def _replay(self, recording: _Recording, inputs: list[Any]) -> Sequence[Any]:
        self._recorder.order()
        if recording.moved:
            recording.fill_inputs(recording.copies, [inputs[at] for at in recording.moved])
        written = {at: inputs[place] for at, place in self._written.items()}
        inputs.clear()
        recording.replay()
        static = [recording.results[at] for at in recording.tensors]
        fresh = twins(static)
        recording.fill_results(fresh, static)
        self._settle()
        if len(fresh) == len(recording.results):
            return tuple(fresh)
        results = list(recording.results)
        for at, made in zip(recording.tensors, fresh, strict=True):
            results[at] = made
        for at, given in written.items():
            results[at] = given
        return tuple(results)


_address = torch.Tensor.data_ptr


def _getter(positions: Sequence[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda inputs: tuple(inputs[at] for at in positions)


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


def _require_own_memory(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> None:
    """
    Raises:
        Unreplayable: a result shares memory with an input or another result: copies would not.
    """
    owners = {t.untyped_storage().data_ptr() for t in inputs if t.numel()}
    for result in results:
        if result.numel():
            address = result.untyped_storage().data_ptr()
            if address in owners:
                raise Unreplayable("results share memory with inputs or with each other")
            owners.add(address)
