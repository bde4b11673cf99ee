"""Times the kernels, rounds interleaved in this process on two threads, compares them with eager, and shows what was found."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import CONTENDERS
from benchmarks.kernels.registry import KernelCase
from benchmarks.measure import Sample, Timed, interleaved, seconds, synchronise

OURS, PEER, EAGER, COPY = "ours", "torch.compile", "eager", "copy"
THREADS = 2
MOST_SETS = 16
"""Of inputs."""
ROUND = 2e-3
"""Seconds that a round of one contender takes at least."""
FROM_MEMORY = 1 << 28
"""Bytes that a GPU's cache holds little of. So much lies between two calls that read the same inputs, or write the same results: else calls
of kernels of a few tens of megabytes find in the cache as much as they are lucky, between half and none of their time."""
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10, torch.bfloat16: 2e-2, torch.float16: 4e-3}
"""Of a result, relative to its largest element, by dtype; integers have to be equal."""


@dataclass
class Prepared:
    """A kernel under every contender, compiled; `copy` is the clone of as many bytes as the kernel reads and writes, half each.
    Steps of a device with memory of its own work on other inputs, and for other results, each time (`FROM_MEMORY`)."""

    name: str
    steps: dict[str, InTurn]
    moved: int | None
    verdicts: dict[str, str]


@dataclass
class KernelRow:
    """Readings of one kernel in seconds a call; bytes moved, None where memory does not bound it."""

    kernel: str
    moved: int | None
    verdicts: dict[str, str]
    samples: dict[str, Sample] = field(default_factory=dict)

    def ratio(self, other: str) -> float | None:
        """Our median to another's."""
        ours, theirs = self.samples.get(OURS), self.samples.get(other)
        return ours.median / theirs.median if ours and theirs else None

    @property
    def worst(self) -> float:
        """Our median to that of the faster of peer and eager."""
        return max((r for other in (PEER, EAGER) if (r := self.ratio(other)) is not None), default=0.0)


def _tensors(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def verdict(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], random: bool) -> str:
    """ "ok", or what differs."""
    for a, b in zip(found, expected, strict=True):
        if random:
            a, b = a.mean(), b.mean()
        tolerance = 0.01 if random else TOLERANCE.get(b.dtype, 0.0)
        finite = b[b.isfinite()]
        largest = finite.abs().max().item() if tolerance and finite.numel() else 0.0
        try:
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, largest))
        except AssertionError as error:
            return "WRONG: " + " ".join(str(error).split())[:120]
    return "ok"


class InTurn:
    """A step on one set of inputs after the other. The last results are kept, so that memory of others is given to the next."""

    def __init__(self, step: Callable[..., Any], sets: Sequence[Sequence[torch.Tensor]]) -> None:
        self._step = step
        self._sets = itertools.cycle(sets)
        self._kept: deque[Any] = deque(maxlen=len(sets) - 1)

    def __call__(self) -> None:
        self._kept.append(self._step(*next(self._sets)))

    def forget(self) -> None:
        """Let go of the last results."""
        self._kept.clear()


def sets_of(inputs: Sequence[torch.Tensor], moved: int | None) -> list[list[torch.Tensor]]:
    """These inputs, and as many copies as it takes."""
    enough = 1 if moved is None else -(-FROM_MEMORY // max(moved, 1))
    on_device = all(each.is_cuda for each in inputs)
    return [
        list(inputs),
        *([each.clone() for each in inputs] for _ in range(min(enough, MOST_SETS) - 1 if on_device else 0)),
    ]


def prepare(case: KernelCase, contenders: Sequence[str], device: str = "cpu") -> Prepared:
    """Compile a kernel under every contender and compare their results with eager's."""
    torch.manual_seed(0)
    inputs = [each.to(device) for each in case.inputs()]
    steps: dict[str, InTurn] = {}
    verdicts: dict[str, str] = {}
    expected = _tensors(case.fn(*inputs))
    moved = None if case.bytes_moved is None else case.bytes_moved(inputs, expected)
    sets = sets_of(inputs, moved)
    for contender in contenders:
        run = CONTENDERS[contender](case.own())
        verdicts[contender] = verdict(_tensors(run(*inputs)), expected, case.random)
        steps[contender] = InTurn(run, sets)
    if moved is not None:
        source = torch.ones(moved // 2, dtype=torch.uint8, device=device)
        steps[COPY] = InTurn(torch.clone, sets_of([source], moved))
    return Prepared(case.name, steps, moved, verdicts)


def _iterations(step: Callable[[], Any], device: str) -> int:
    for _ in range(3):
        step()
    synchronise(device)
    start = time.perf_counter()
    step()
    synchronise(device)
    return max(1, round(ROUND / max(time.perf_counter() - start, 1e-7)))


def measure(prepared: Prepared, rounds: int, device: str = "cpu") -> KernelRow:
    """Time a kernel under every contender."""
    # Each as often as it takes: two calls of a fast one, as a slow one asks for, would be little more than the wait for their end.
    timed = {c: Timed(step, _iterations(step, device)) for c, step in prepared.steps.items()}
    samples = interleaved(timed, rounds, device)
    for step in prepared.steps.values():
        step.forget()
    return KernelRow(prepared.name, prepared.moved, prepared.verdicts, samples)


def table(rows: Sequence[KernelRow], contenders: Sequence[str]) -> Table:
    """One line a kernel: medians with spread, our ratios, our GB/s and its share of a copy's."""
    out = Table(title="median (lowest..highest); ours to the others; bandwidth")
    for heading in ("kernel", *contenders, "/peer", "/eager", "GB/s", "of a copy", "correct"):
        out.add_column(heading, no_wrap=heading != "correct")
    for row in sorted(rows, key=lambda row: -row.worst):
        ratios = [row.ratio(other) for other in (PEER, EAGER)]
        rate = share = "-"
        if row.moved is not None and OURS in row.samples:
            ours = row.samples[OURS].median
            rate, share = f"{row.moved / ours / 1e9:.1f}", f"{row.samples[COPY].median / ours:.0%}"
        wrong = "; ".join(f"{c}: {v}" for c, v in row.verdicts.items() if v != "ok") or "ok"
        shown = (seconds(row.samples.get(c), None) for c in contenders)
        out.add_row(row.kernel, *shown, *("-" if r is None else f"{r:.2f}" for r in ratios), rate, share, wrong)
    return out


def summary(rows: Sequence[KernelRow]) -> str:
    """Geometric means of our ratios, and how many kernels are behind."""
    said = []
    for other in (PEER, EAGER):
        ratios = [r for row in rows if (r := row.ratio(other)) is not None]
        if ratios:
            behind = sum(r > 1 for r in ratios)
            mean = statistics.geometric_mean(ratios)
            said.append(f"ours to {other}: geometric mean {mean:.3f}, slower in {behind} of {len(ratios)}")
    shares = [row.samples[COPY].median / row.samples[OURS].median for row in rows if {OURS, COPY} <= row.samples.keys()]
    if shares:
        said.append(f"of a copy's bandwidth: geometric mean {statistics.geometric_mean(shares):.2f} of {len(shares)}")
    return "\n".join(said)


def show(
    cases: Sequence[KernelCase], contenders: Sequence[str], console: Console, rounds: int, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Measure the kernels and print them, the worst first; the readings."""
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        rows, failed = [], list[Exception]()
        for case in cases:
            try:
                rows.append(measure(prepare(case, contenders, device), rounds, device))
            except Exception as error:
                error.add_note(f"in the kernel {case.name}")
                failed.append(error)
    report(rows, contenders, console)
    if failed:
        raise ExceptionGroup("kernels failed", failed)
    return [asdict(row) for row in rows]


def report(rows: Sequence[KernelRow], contenders: Sequence[str], console: Console) -> None:
    """Print the table and what it comes to."""
    console.print(table(rows, contenders))
    console.print(summary(rows), highlight=False)
