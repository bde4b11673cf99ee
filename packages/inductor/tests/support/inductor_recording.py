"""A recorder without a device: what is recorded reads and writes memory where it lay, and holds nothing of it."""

from __future__ import annotations

import ctypes
import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from inductor import DeviceTraits
from inductor.replay import Reader, SavedMemory, replayed
from inductor.replay.places import reader
from inductor.replay.twins import Filler, extent


def at_address(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor over the same memory that does not keep it."""
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    with torch.inference_mode(False):
        return _over(tensor)


def _over(tensor: torch.Tensor) -> torch.Tensor:
    bytes = (ctypes.c_char * (extent(tensor) * tensor.element_size())).from_address(tensor.data_ptr())
    flat = torch.frombuffer(bytes, dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride())


def _spoil(tensor: torch.Tensor) -> None:
    """Write what nobody takes for a result."""
    tensor.fill_(float("nan") if tensor.is_floating_point() or tensor.is_complex() else 1)


class Kept:
    """A `Recorder` whose replays run the function again, over the memory that it was recorded with.

    As with a device nothing has happened once something is recorded: its inputs are as they were, its results nothing anybody knows;
    and each replay overwrites what the other recordings that share its memory have left.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.recorded = self.replays = self.asides = self.apart = 0
        self.fails = self.recording = False
        self._left: list[weakref.ref[torch.Tensor]] = []
        """Results in the memory that recordings share."""

    def busy(self) -> bool:
        return self.recording

    def aside(self, run: Callable[[], Any]) -> Any:
        self.asides += 1
        return run()

    def record(self, run: Callable[[], Any], apart: bool) -> tuple[Callable[[], None], Any]:
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.recorded += 1
        self.apart += apart
        held = inspect.getclosurevars(run).nonlocals["places"]
        given = [at_address(value) for value in held if isinstance(value, torch.Tensor)]
        before = [value.clone() for value in given]
        with torch.inference_mode(False), torch.no_grad():
            results = run()
        inputs = {id(value) for value in held}
        made = [result for result in results if isinstance(result, torch.Tensor) and id(result) not in inputs]
        begun, written, fill = False, [at_address(value) for value in made], Filler(made)
        for value in written:
            _spoil(value)
        Filler(given)(given, before)
        own = [] if apart else [weakref.ref(value) for value in made]
        self._left = [*(one for one in self._left if one() is not None), *own]
        del made, given

        def replay() -> None:
            nonlocal begun
            if not begun:  # by now nobody asks any more which of them the results are
                held[:] = [at_address(value) if isinstance(value, torch.Tensor) else value for value in held]
                begun = True
            self.replays += 1
            self._spoil_others(own)
            inputs = {id(value) for value in held}
            with torch.inference_mode(False), torch.no_grad():
                fresh = [value for value in run() if isinstance(value, torch.Tensor) and id(value) not in inputs]
                fill(written, fresh)

        return replay, results

    def _spoil_others(self, own: list[weakref.ref[torch.Tensor]]) -> None:
        """What other recordings have left is not there any more."""
        kept = {*map(id, own)}
        for one in self._left:
            if id(one) not in kept and (value := one()) is not None:
                _spoil(at_address(value))

    def order(self) -> None:
        pass

    def reader(self, at: tuple[int, ...]) -> Reader:
        return reader(at)


class Counted:
    """A compiled graph that counts the runs of it that are not recorded."""

    def __init__(self, run: Callable[..., Sequence[Any]]) -> None:
        self.run = run
        self.calls = 0

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        self.calls += 1
        given = list(inputs)
        inputs.clear()
        return self.run(*given)

    def settle(self) -> None:
        """Nothing is met."""


recorder = Kept()


def recorder_of(device: torch.device) -> Kept:
    """The one that the tests look at."""
    return recorder


def recording() -> tuple[Callable[[fx.GraphModule, Sequence[Any]], Any], Kept, list[Counted]]:
    """A compiler of a training step whose graphs are recorded; the recorder, and the graphs in the order they were compiled."""
    global recorder
    recorder = Kept()
    memory = SavedMemory()
    graphs: list[Counted] = []
    traits = DeviceTraits(recorder=f"{__name__}:recorder_of")

    def compiler(module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        graphs.append(Counted(module.forward))
        return replayed(graphs[-1], module.graph, inputs, memory=memory, traits=lambda _: traits)

    return compiler, recorder, graphs
