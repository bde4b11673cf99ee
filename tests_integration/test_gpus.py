"""On several GPUs of one host, in one process. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpus.py` runs them.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import capture
import meta

pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() < 2 or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs two CUDA GPUs, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)
DEVICES = ("cuda:0", "cuda:1")
MODES = ("default", "reduce-overhead")


@pytest.fixture(autouse=True)
def _raising() -> Iterator[None]:
    before, capture.config.on_error = capture.config.on_error, "raise"
    meta.reset()
    yield
    capture.config.on_error = before


class Halves(nn.Module):
    """Its layers lie on two devices, as in a model that is too large for one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64)).to(DEVICES[0])
        self.second = nn.Sequential(nn.Linear(64, 32), nn.Softmax(-1)).to(DEVICES[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).to(DEVICES[1]))


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin() * 2, -1) + x.sum(0)


@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_one_function_on_each_device_whichever_is_current(mode: str) -> None:
    run = meta.compile(program, mode=mode)
    for _ in range(3):
        for current in range(2):
            with torch.cuda.device(current):
                for device in DEVICES:
                    x = torch.randn(50, 130, device=device)
                    found = run(x)
                    assert str(found.device) == device
                    torch.testing.assert_close(found, program(x))
                assert torch.cuda.current_device() == current


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("train", [False, True])
def test_a_model_on_two_devices(mode: str, train: bool) -> None:
    torch.manual_seed(0)
    model = Halves()
    other = copy.deepcopy(model)
    run = meta.compile(model, mode=mode)
    for _ in range(3):
        x = torch.randn(16, 32, device=DEVICES[0])
        if not train:
            with torch.no_grad():
                torch.testing.assert_close(run(x), other(x))
            continue
        for one in (model, other):
            one.zero_grad()
        found, expected = run(x), other(x)
        (found * found).sum().backward()
        (expected * expected).sum().backward()
        torch.testing.assert_close(found, expected)
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_a_device(mode: str) -> None:
    """As data parallel programs do: one compiled function, replicas trained beside each other."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.LayerNorm(64))
    replicas = [copy.deepcopy(model).to(device) for device in DEVICES]
    references = [copy.deepcopy(model).to(device) for device in DEVICES]
    compiled = [meta.compile(replica, mode=mode) for replica in replicas]
    failures: list[BaseException] = []

    def work(at: int) -> None:
        try:
            for _ in range(10):
                x = torch.randn(32, 64, device=DEVICES[at])
                for one in (replicas[at], references[at]):
                    one.zero_grad()
                compiled[at](x).pow(2).sum().backward()
                references[at](x).pow(2).sum().backward()
                for a, b in zip(replicas[at].parameters(), references[at].parameters(), strict=True):
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@torch.no_grad()
def test_positions_out_of_range_are_told_of_the_device_that_met_them() -> None:
    run = meta.compile(lambda i, table: F.embedding(i, table) + 1)
    tables = [torch.randn(10, 8, device=device) for device in DEVICES]
    for bad in range(2):
        for at, table in enumerate(tables):
            index = torch.full((4,), 10 if at == bad else 9, device=table.device)
            if at == bad:
                with pytest.raises(IndexError):
                    run(index, table)
            else:
                torch.testing.assert_close(run(index, table), table[index] + 1)


@torch.no_grad()
def test_each_device_has_its_own_random_numbers() -> None:
    run = meta.compile(lambda x: F.dropout(x, 0.5))
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        drawn.append([run(torch.ones(1000, device=device)) for device in DEVICES])
    for first, second in zip(*drawn, strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(run(torch.ones(1000, device=DEVICES[1])), drawn[0][1])


@torch.no_grad()
def test_streams_of_two_devices() -> None:
    run = meta.compile(program)
    inputs = [torch.randn(64, 64, device=device) for device in DEVICES]
    streams = [torch.cuda.Stream(device) for device in DEVICES]
    found = []
    for x, stream in zip(inputs, streams, strict=True):
        stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(stream):
            found.append(run(x))
    for x, stream, result in zip(inputs, streams, found, strict=True):
        stream.synchronize()
        torch.testing.assert_close(result, program(x))
