"""One cell: an operator with one dtype, forward or with gradients, compiled as one program of several sample calls.

Flows in: names. Flows out: a `Cell`. Where the program of all samples is not right, each sample is compiled by itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

import capture
import meta
from benchmarks.operators.judge import ORDER, errors, judge
from benchmarks.operators.samples import (
    FACTORS,
    VALUES_SKIPPED,
    Call,
    alike,
    calls,
    fresh,
    operators,
    reason,
    widened,
    without_unwritten,
    without_unwritten_rows,
)
from inductor import CompiledGraph


@dataclass
class Cell:
    """What came of one cell."""

    op: str
    dtype: str
    kind: str
    verdict: str
    """One of `judge.ORDER`; "eager raises": no sample runs; "died": the process did."""
    message: str = ""
    samples: int = 0
    launches: int = 0
    """Calls of generated kernels in one run of the samples."""
    externs: int = 0
    """Calls of ATen kernels."""
    left: str = ""
    """Why part of the program, or all, was left to eager; empty if nothing was."""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.dtype, self.kind


def run_cell(name: str, dtype: str, kind: str, count: int, device: str = "cpu") -> Cell:
    """Compile and compare; never raises for what the compiler does."""
    started = time.perf_counter()
    samples = _that_run(name, calls(name, dtype, kind, count, device))
    cell = Cell(name, dtype, kind, "right", samples=len(samples))
    if not samples:
        cell.verdict = "eager raises"
        return cell
    cell = _compare(cell, samples)
    if (cell.verdict != "right" or cell.left) and len(samples) > 1:
        alone = [_compare(cell, [sample]) for sample in samples]
        at, worst = min(enumerate(alone), key=lambda numbered: ORDER.index(numbered[1].verdict))
        if worst.verdict != "right":
            cell.verdict, cell.message = worst.verdict, f"sample {at}: {worst.message}"
        elif cell.verdict != "right":
            cell.message = f"only together: {cell.message}"
        if cell.left:  # what breaks the graph leaves a loop over samples to eager as a whole
            cell.left = "; ".join(dict.fromkeys(one.left for one in alone if one.left))
            cell.launches, cell.externs = sum(one.launches for one in alone), sum(one.externs for one in alone)
    cell.seconds = time.perf_counter() - started
    return cell


def _that_run(name: str, samples: list[Call]) -> list[Call]:
    function = operators()[name].op
    found = []
    for sample in samples:
        try:
            _run(name, lambda calls: function(calls[0][0], *calls[0][1], **calls[0][2]), [sample], alone=True)
        except Exception:  # eager refuses the sample, or has no gradient of it
            continue
        found.append(sample)
    return found


def _compare(cell: Cell, samples: list[Call]) -> Cell:
    """The cell by the program of these samples."""
    function = operators()[cell.op].op
    compiled: list[CompiledGraph] = []

    def backend(graph: Any, inputs: Any) -> Any:
        # Random numbers are compared, too.
        return meta.backends.inductor(graph, inputs, on_compiled=compiled.append, options={"random": "eager"})

    def several(calls: list[Call]) -> list[Any]:
        return [function(first, *args, **kwargs) for first, args, kwargs in calls]

    def single(calls: list[Call]) -> Any:
        first, args, kwargs = calls[0]
        return function(first, *args, **kwargs)

    program: Callable[..., Any] = several if len(samples) > 1 else single

    def run(program: Callable[..., Any], samples: list[Call], slope: float = 1.0) -> list[Any]:
        return _run(cell.op, program, samples, alone=len(samples) == 1, slope=slope)

    capture.reset()
    capture.config.on_error = "raise"
    eager = run(program, samples)
    try:
        exact = run(program, widened(samples))
    except Exception:  # there is no such operator in float64
        exact = None
    values = reason(VALUES_SKIPPED, cell.op) is None
    ours = meta.compile(program, backend=backend)
    runs: list[list[Any]] = []
    answers: list[tuple[str, str]] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [run(ours, samples) for _ in range(2)]  # the first run checks layouts, later ones do not
        answers += [judge(found, eager, exact, values=values) for found in runs]
        if exact is not None and any(verdict == "values" for verdict, _ in answers):
            elsewhere = _errors_elsewhere(lambda *given: run(program, *given), samples, len(eager))
            answers = [judge(found, eager, exact, values=values, elsewhere=elsewhere) for found in runs]
    except Exception as error:
        answers.append(("raised", f"{type(error).__name__}: {error}".splitlines()[0][:300]))
    verdict, message = min(answers, key=lambda answer: ORDER.index(answer[0]))
    told = meta.report(ours)
    left = "; ".join(dict.fromkeys([*(broken.reason for broken in told.breaks), *told.skipped]))
    launches, externs = (sum(getattr(graph.stats, what) for graph in compiled) for what in ("launches", "externs"))
    return replace(cell, verdict=verdict, message=message, left=left, launches=launches, externs=externs)


def _errors_elsewhere(
    eager: Callable[[list[Call], float], list[Any]], samples: list[Call], results: int
) -> list[float]:
    """Eager's largest errors against float64 in each of its results, for samples, and gradients of results, like these."""
    largest = [0.0] * results
    for factor in FACTORS:
        others = alike(samples, factor)
        try:
            found = errors(eager(others, factor), eager(widened(others), factor))
        except Exception:  # a sample that the operator is not defined for
            continue
        largest = [max(pair) for pair in zip(largest, found, strict=True)]
    return largest


def _run(name: str, program: Callable[..., Any], samples: list[Call], alone: bool, slope: float = 1.0) -> list[Any]:
    """One run, seeded, on fresh arguments: results, gradients, and the arguments afterwards; flat.

    `alone`: the program gives the results of one call, and not a list of several's. `slope`: the largest gradient of a result.
    """
    given = fresh(samples)
    leaves = [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
    torch.manual_seed(1)
    returned = program(given)
    of_calls = [returned] if alone else returned
    results = pytree.tree_leaves([without_unwritten(name, *pair) for pair in zip(given, of_calls, strict=True)])
    outs = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = [t for t in leaves if t.requires_grad and t.is_leaf]
    gradients: list[Any] = []
    if outs and wanted:
        gradients = list(torch.autograd.grad(outs, wanted, [_slope(t, slope) for t in outs], allow_unused=True))
        for call in given:
            without_unwritten_rows(name, call, wanted, gradients)
    return [*results, *gradients, *leaves]


def _slope(t: torch.Tensor, largest: float) -> torch.Tensor:
    """A gradient for a result, no two elements alike, laid out as the result is: so a compiled backward takes it."""
    with torch.no_grad():
        slope = torch.ones_like(t)
        if t.layout is torch.strided:
            slope.copy_((largest * torch.cos(torch.arange(t.numel(), dtype=torch.float64))).reshape(t.shape))
    return slope
