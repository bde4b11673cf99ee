"""Blocks that are timed: all candidates compute the same, the fastest are taken and kept, and nothing of the program's is touched."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor

from aotgrad import core_decompositions, trace_inference
from inductor import CompiledGraph, Options, compile_graph
from inductor.device import Kernel, KernelArg
from inductor.ir.body import record
from inductor.ops import ops
from inductor.triton import candidates as rules
from inductor.triton import trials, tuning
from inductor.triton.blocks import Blocks
from inductor.triton.choices import Case, Choices

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment"
)
interpreted = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="runs under Triton's interpreter",
)
I0 = sympy.Symbol("i0", integer=True, nonnegative=True)


class Clock:
    """Finds that blocks are the faster the nearer they are to a place in the list, and that all compute the same; notes how many were
    timed at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, best: int = 0) -> None:
        self.best = best
        self.timed: list[int] = []
        self.written: list[Tensor] = []
        self.before: list[Tensor] = []
        monkeypatch.setattr(tuning, "seconds", self.seconds)
        monkeypatch.setattr(tuning, "scratch", self.scratch)
        monkeypatch.setattr(rules, "WORTH", 0)

    def scratch(self, kernel: Kernel, arguments: Sequence[Any]) -> list[Any]:
        given = trials.scratch(kernel, arguments)
        self.written = [value for arg, value in zip(kernel.args, given, strict=True) if arg.role in ("out", "inout")]
        self.before = [value.clone() for value in self.written]
        return given

    def seconds(self, calls: Sequence[Callable[[], None]], device: torch.device) -> list[float]:
        results = []
        for call in calls:
            for value, before in zip(self.written, self.before, strict=True):
                value.copy_(before)
            call()
            results.append([value.clone() for value in self.written])
        for result in results:
            torch.testing.assert_close(result, results[0], atol=1e-4, rtol=1e-4)
        self.timed.append(len(calls))
        return [1.0 + abs(at - self.best) for at in range(len(calls))]


def compiled(
    fn: Callable[..., Any], inputs: Sequence[Tensor], options: Options, keep: Path | None = None
) -> CompiledGraph:
    from inductor.triton import TritonBackend

    with torch.no_grad():
        traced = trace_inference(fn, list(inputs), core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    backend = TritonBackend("cpu")
    return compile_graph(
        traced.module, fakes, options, backends={"cpu": backend if keep is None else backend.tuning(True, str(keep))}
    )


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def accumulated(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros(50, x.shape[1]).index_put((i,), x, accumulate=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "elementwise": (lambda x, y: torch.sin(x) * y, [normal(37, 67), normal(37, 67)]),
    "transpose": (lambda x, y: x.t().contiguous() + y, [normal(130, 70), normal(70, 130)]),
    "rows": (lambda x: torch.softmax(x, -1), [normal(3, 33)]),
    "norm": (lambda x, w: torch.nn.functional.layer_norm(x, (300,), w), [normal(9, 300), normal(300)]),
    "long rows": (lambda x, w: torch.nn.functional.layer_norm(x, (5000,), w), [normal(3, 5000), normal(5000)]),
    "columns": (lambda x: x.sum(0), [normal(77, 45)]),
    "norm of columns": (lambda x: x / x.square().sum(0), [normal(50, 70)]),
    "running sums": (lambda x: x.cumsum(-1) * 2, [normal(3, 2100)]),
    "accumulated": (accumulated, [normal(40, 33), torch.randint(0, 50, (40,))]),
    "places": (lambda x, i: x[i] * 2, [normal(50, 70), torch.randint(-50, 50, (60,))]),
}


@interpreted
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_candidates_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, inputs = PROGRAMS[name]
    clock = Clock(monkeypatch, best=2)
    graph = compiled(lambda *args: (fn(*args),), inputs, Options(autotune=True))
    for _ in range(2):
        torch.testing.assert_close(graph(list(inputs))[0], fn(*inputs), atol=1e-4, rtol=1e-4)
        assert max(clock.timed) > 2 and len(clock.timed) <= graph.stats.kernels, "what was timed is not timed again"


@interpreted
def test_without_the_option_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    x = normal(9, 130)
    for options in (Options(), Options(autotune=False)):
        compiled(lambda x: (x / x.square().sum(-1, keepdim=True),), [x], options)([x])
    torch.use_deterministic_algorithms(True)
    try:
        compiled(lambda x: (x / x.square().sum(-1, keepdim=True),), [x], Options(autotune=True))([x])
    finally:
        torch.use_deterministic_algorithms(False)
    assert not clock.timed


@interpreted
def test_the_fastest_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch, best=2)
    inputs = [normal(9, 130)]
    taken: list[Blocks] = []
    take = Choices.take
    monkeypatch.setattr(Choices, "take", lambda self, case, blocks: taken.append(blocks) or take(self, case, blocks))
    for _ in range(3):
        graph = compiled(lambda x: (x / x.square().sum(-1, keepdim=True),), inputs, Options(), keep=tmp_path)
        torch.testing.assert_close(graph(list(inputs))[0], inputs[0] / inputs[0].square().sum(-1, keepdim=True))
    assert len(clock.timed) == 1 and list(tmp_path.rglob("blocks/*/*/figures.json"))
    assert len(set(taken)) == 1
    monkeypatch.setattr(tuning.Tuner, "plan", None)  # who knows asks nobody
    compiled(lambda x: (x / x.square().sum(-1, keepdim=True),), inputs, Options(), keep=tmp_path)(list(inputs))
    monkeypatch.undo()
    clock = Clock(monkeypatch)
    compiled(lambda x: ((x + 1) / x.square().sum(-1, keepdim=True),), inputs, Options(), keep=tmp_path)(list(inputs))
    assert len(clock.timed) == 1, "another kernel"


def test_the_usual_ones_stay_where_none_are_clearly_faster() -> None:
    usual, other = Blocks(1, 512, True, 1, False), Blocks(2, 512, True, 1, False)
    assert tuning.fastest([usual, other], [1.0, 0.98]) is usual
    assert tuning.fastest([usual, other], [1.0, 0.9]) is other
    assert tuning.fastest([usual, other], [tuning.NEVER, 0.9]) is other


def test_few_points_are_not_worth_it() -> None:
    usual = Blocks(1024, 1, True, 4, False)
    assert rules.candidates(Case((30,), 1, usual), False) == [usual]
    many = rules.candidates(Case((1 << 20,), 1, usual), False)
    assert 2 < len(many) <= rules.MOST and many[0] == usual and len(set(many)) == len(many)


def in_place(name: str = "x", moved: bool = False) -> Kernel:
    """x += 1, or at places of its own."""

    def function(i: Any, r: Any) -> None:
        at = ops.indirect(ops.load("x", i[0]), 4096) if moved else i[0]
        ops.store("x", at, ops.add(ops.load("x", i[0]), ops.constant(1, torch.int64)))

    return Kernel(
        name="in_place",
        device=torch.device("cpu"),
        outer_sizes=(sympy.Integer(4096),),
        inner_sizes=(),
        body=record(function, (I0,), (), lambda name: torch.int64),
        args=(KernelArg("x", "inout", torch.int64),),
        symbols=(),
        origins=("a test",),
    )


@needs_triton
def test_all_candidates_are_compiled(tmp_path: Path) -> None:
    """For sm_90 and in float16."""
    program = """
import torch
from concurrent.futures import ThreadPoolExecutor
from triton.backends.compiler import GPUTarget
import aotgrad
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, launcher
from inductor.triton.building import load_kernels
from inductor.triton.forms import HEADER
from inductor.triton.candidates import candidates
from inductor.triton.choices import Choices
from inductor.triton.signature import source_of
from symshapes import FakeMode
backends = {"cuda": TritonBackend()}
programs = {
    "tiles": (lambda x: x.t().contiguous(), (512, 1024)), "columns": (lambda x: x.sum(0), (300, 1024)),
    "rows": (lambda x: x / x.sum(-1, keepdim=True), (64, 4096)),
}
jobs = []
for name, (fn, size) in programs.items():
    with FakeMode(), torch.no_grad():
        fake = torch.empty(size, dtype=torch.float16, device="cuda:0")
    with torch.no_grad():
        traced = aotgrad.trace_inference(lambda x: (fn(x),), [fake], aotgrad.core_decompositions())
    kernel = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends)).kernels[0]
    choices = Choices(kernel, None, lambda text, name: load_kernels(HEADER + text, [name])[name])
    tried = candidates(choices.case(), choices.reduces)[1:]
    texts = {(blocks.persistent, blocks.tile, blocks.stages): blocks for blocks in tried}
    for blocks in {*texts.values(), max(tried, key=lambda blocks: blocks.x * blocks.r)}:  # of each text, and the largest
        source = source_of(choices.function(choices.form_of(blocks)), kernel, blocks, bytes([3]), True)
        jobs.append((name, source, blocks))
def compiled(job):
    made = launcher.compile_for(job[1], GPUTarget("cuda", 90, 32), job[2].options)
    return job[0], made.code[:4], made.shared <= 227 << 10
with ThreadPoolExecutor(4) as threads:
    found = list(threads.map(compiled, jobs))
print(set(found) == {(name, b"\\x7fELF", True) for name in programs}, len(found) > len(programs))
"""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "INDUCTOR_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True\n"


@interpreted
def test_what_is_written_to_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor.triton import TritonBackend

    clock = Clock(monkeypatch, best=1)
    backend = TritonBackend("cpu").tuning(False, None)
    source = backend.emit(in_place())
    call = backend.build(backend.module_text([source]), [source])["in_place"]
    whole = torch.zeros(5000, dtype=torch.int64)
    for count in (1, 2):
        call(whole[100:4196])
        assert clock.timed == [clock.timed[0]] and clock.timed[0] > 1
        assert whole[100:4196].eq(count).all() and whole.sum() == 4096 * count


def test_what_finds_places_by_what_it_wrote_is_not_tried() -> None:
    assert trials.repeatable(in_place()) and not trials.repeatable(in_place(moved=True))


def test_copies_share_memory_as_the_program_s_do() -> None:
    kernel = in_place()
    memory = torch.arange(40.0)
    args = tuple(KernelArg(name, role, torch.float32) for name, role in (("a", "in"), ("b", "out"), ("c", "inout")))
    kernel = Kernel("k", kernel.device, kernel.outer_sizes, (), kernel.body, args, (), ())
    a, b, c = trials.scratch(kernel, [memory[:3], memory[10:20:2], memory[4:]])
    assert a.data_ptr() == memory.data_ptr() and b.equal(memory[10:20:2]) and c.equal(memory[4:])
    b.zero_()
    assert c[6:16:2].eq(0).all() and memory.equal(torch.arange(40.0)) and c.storage_offset() == 4


class Refuses:
    """A runner of which some forms fail, or where launches are recorded."""

    failures = (RuntimeError,)

    def __init__(self, failing: Sequence[int] = (), recording: bool = False) -> None:
        self.failing, self.recording = failing, recording
        self.begun: list[int] = []

    def begin(self, form: int, arguments: Sequence[Any] | None) -> None:
        self.begun.append(form)

    def call(self, form: int, plan: Any) -> Callable[..., None]:
        def launch(*args: Any) -> None:
            if form in self.failing:
                raise RuntimeError("it needs more registers than there are")

        return launch

    def busy(self) -> bool:
        return self.recording


def tuner(runner: Refuses, group: tuning.Group | None = None) -> tuning.Tuner:
    choices = Choices(in_place(), "general", lambda text, name: text)
    return (group or tuning.Group(None, lambda device: ())).tuner(choices, "@triton.jit\n...", runner)


def test_what_fails_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    made = tuner(Refuses(failing=(0, 1)))
    assert made.plan(torch.zeros(4096, dtype=torch.int64))[1] == 2


def test_nothing_is_timed_while_launches_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, best=1)
    runner = Refuses(recording=True)
    made = tuner(runner)
    x = torch.zeros(4096, dtype=torch.int64)
    assert made.plan(x)[1] == 0 and not clock.timed
    runner.recording = False
    assert made.plan(x)[1] == 1 and clock.timed


def test_without_memory_the_heuristics_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise torch.OutOfMemoryError("full")

    Clock(monkeypatch, best=1)
    monkeypatch.setattr(tuning, "scratch", full)
    assert tuner(Refuses()).plan(torch.zeros(4096, dtype=torch.int64))[1] == 0


def test_all_kernels_of_a_graph_are_compiled_when_the_first_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    group = tuning.Group(None, lambda device: ())
    runners = [Refuses(), Refuses()]
    first, second = (tuner(runner, group) for runner in runners)
    assert first.settled() is None and second.settled() is None and not runners[1].begun
    first.plan(torch.zeros(4096, dtype=torch.int64))
    assert len(runners[1].begun) > 1
