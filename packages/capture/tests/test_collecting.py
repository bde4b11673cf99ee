"""The garbage collector does not run while a frame is captured, and is afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import capture


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Generations collected, as it happens, with a collector that is soon at work."""
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10, 2, 2)
    try:
        yield found
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)


def program(x: torch.Tensor) -> torch.Tensor:
    for scale in range(5):
        x = torch.relu(x) * scale + 1
    return x


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_none_happens_in_a_capture(collections: list[int], enabled: bool, fails: bool) -> None:
    seen: list[int] = []
    before = gc.get_threshold()

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        assert gc.isenabled() == enabled, "which the program may ask"
        seen.append(len(collections))
        if fails:
            raise RuntimeError("made up")
        return module.forward

    compiled = capture.compile(program, backend)
    if not enabled:
        gc.disable()
    try:
        collections.clear()
        try:
            compiled(torch.ones(3))
            assert not fails
        except Exception as error:
            assert fails and "made up" in str(error)
        assert (gc.isenabled(), gc.get_threshold()) == (enabled, before)
        (during,) = seen
        assert during < 20, "it was at work before the frame was captured, if at all"
    finally:
        gc.enable()


@pytest.mark.parametrize("say", [gc.disable, lambda: gc.set_threshold(123)])
def test_what_another_thread_says_meanwhile_stays(collections: list[int], say: Any) -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        thread = threading.Thread(target=say)
        thread.start()
        thread.join()
        return module.forward

    try:
        capture.compile(program, backend)(torch.ones(3))
        assert not gc.isenabled() or gc.get_threshold()[0] == 123
    finally:
        gc.enable()
