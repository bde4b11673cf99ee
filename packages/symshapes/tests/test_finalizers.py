"""Finalizers run by a collection in the middle of tracing act on real tensors."""

from __future__ import annotations

import _thread
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from symshapes import FakeMode, TraceSpoiled, finalizers, finalizers_outside_modes


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Cyclic:
    """Counts its end in a tensor."""

    def __init__(self, ends: torch.Tensor) -> None:
        self.ends = ends
        self.me = self

    def __del__(self) -> None:
        self.ends.add_(1)
        assert torch.equal(self.ends, self.ends.clone())


def test_a_finalizer_computes_for_real_and_is_not_recorded() -> None:
    ends = torch.zeros(())
    recorder = Recorder()
    with finalizers_outside_modes(), FakeMode(), recorder:
        Cyclic(ends)
        gc.collect()
        made = torch.ones(3)
    assert ends.item() == 1
    assert type(made) is not torch.Tensor  # the modes are in force again
    assert recorder.seen == [torch.ops.aten.ones.default]


def test_nothing_stays_registered() -> None:
    with finalizers_outside_modes():
        """Ends what interrupts of other tests left."""
    before = list(gc.callbacks)
    with finalizers_outside_modes():
        with finalizers_outside_modes():
            assert len(gc.callbacks) == len(before) + 1
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before


def test_a_stretch_whose_end_was_interrupted_is_cleared_up_after(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupt(BaseException):
        pass

    class Interrupts:
        def __enter__(self) -> None:
            raise Interrupt

        __exit__ = __enter__

    with finalizers_outside_modes():
        """Ends what interrupts of other tests left."""
    before = list(gc.callbacks)
    with pytest.raises(Interrupt), monkeypatch.context() as patched, finalizers_outside_modes():
        patched.setattr(finalizers, "_lock", Interrupts())
    with finalizers_outside_modes():
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before


def test_a_handler_may_trace_while_its_thread_holds_the_lock() -> None:
    done = threading.Event()

    def interrupted() -> None:
        with finalizers._lock, finalizers_outside_modes():
            done.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert done.wait(10)


@pytest.fixture
def alone() -> Iterator[None]:
    """No collector's callback but ours: another one in Python would hear the interrupt first."""
    others = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = others


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("collections", [1, 2])
def test_an_interrupt_that_the_collector_swallows_spoils_the_trace(collections: int) -> None:
    class Interrupts(Cyclic):
        __del__ = _thread.interrupt_main  # type: ignore[assignment]  # heard where Python code runs next

    recorder, ends = Recorder(), torch.zeros(())
    with pytest.raises(TraceSpoiled), finalizers_outside_modes(), FakeMode(), recorder:
        Interrupts(ends)
        gc.collect()
        Cyclic(ends)
        if collections == 2:
            gc.collect()
        made = torch.ones(3)
    assert type(made) is torch.Tensor or recorder.seen
    with finalizers_outside_modes(), FakeMode():
        gc.collect()
        assert type(torch.ones(3)) is not torch.Tensor
    assert type(torch.ones(3)) is torch.Tensor


def test_a_stretch_within_a_finalizer_leaves_its_collection_alone() -> None:
    class Traces(Cyclic):
        def __del__(self) -> None:
            with finalizers_outside_modes():
                self.ends.add_(1)
            self.ends.add_(1)

    ends, recorder = torch.zeros(()), Recorder()
    with finalizers_outside_modes(), FakeMode(), recorder:
        Traces(ends)
        gc.collect()
    assert ends.item() == 2
    assert not recorder.seen
