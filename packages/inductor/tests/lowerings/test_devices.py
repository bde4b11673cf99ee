"""Graphs over two devices: no loop reads another device's memory. Fake tensors: no GPU is needed."""

from __future__ import annotations

from typing import Any

import torch
from inductor_tracing import trace

from inductor.ir.program import ExternOp, LoopOp, Program
from inductor.lower import lower
from symshapes import FakeMode


def lowered(function: Any, *inputs: tuple[tuple[int, ...], str]) -> Program:
    mode = FakeMode()
    with mode:
        fakes = [torch.empty(size, device=device) for size, device in inputs]
        graph, _ = trace(function, *fakes)
    return lower(graph, fakes)


def reads_stay_on_their_device(program: Program) -> bool:
    return all(
        program.buffers[name].device == op.device
        for op in program.operations
        if isinstance(op, LoopOp)
        for name in [*op.writes, *(load.buffer for load in op.body.loads())]
    )


def test_a_cpu_number_in_a_gpu_loop_is_copied_first() -> None:
    program = lowered(lambda x, s: x * s + 1, ((4, 4), "cuda"), ((), "cpu"))
    copies = [op for op in program.operations if isinstance(op, ExternOp)]
    assert [op.kwargs["device"].type for op in copies] == ["cuda"]
    assert reads_stay_on_their_device(program)


def test_moving_between_devices_is_an_aten_call() -> None:
    program = lowered(lambda x: (x * 2).to("cpu") + 1, ((4, 4), "cuda"))
    assert [type(op) for op in program.operations] == [LoopOp, ExternOp, LoopOp]
    assert reads_stay_on_their_device(program)
