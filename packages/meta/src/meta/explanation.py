"""`explain`: compile and run a function once, and say what came of it at every stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

import capture
from inductor import CompiledGraph
from meta import backends
from symshapes import dataclass, timed_phases

RUN = "run"


@dataclass(frozen=True)
class Explanation:
    """What one call captured and compiled. `str()` tells all, `summary()` the main facts."""

    trace: capture.Trace
    """Graphs, graph breaks with reasons and user lines, guards in words."""
    compiled: tuple[CompiledGraph, ...]
    """One a graph in inference, a forward and a backward one in training."""
    phases: Mapping[str, float]
    """Seconds of the call by what they were spent on, each without the phases inside it: "run" is the call itself, "build" the C++ or
    Triton compiler, "backend" what lies between the other phases."""

    @property
    def graph_count(self) -> int:
        """How many graphs were captured."""
        return self.trace.graph_count

    @property
    def break_count(self) -> int:
        """How many graph breaks there were."""
        return self.trace.break_count

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of all generated kernels."""
        return tuple(name for graph in self.compiled for name in graph.kernels)

    def summary(self) -> str:
        """Counts of graphs, breaks, guards and kernels, and where the generated code lies."""
        rows = [
            ("graphs", f"{self.graph_count}"),
            ("graph breaks", f"{self.break_count}"),
            *(("", f"{broken.reason}  # {broken.user_line}") for broken in self.trace.breaks),
            *(("left to eager", skipped) for skipped in self.trace.skipped),
            ("guards", f"{len(self.trace.guards)}"),
            *(("sizes", size) for graph in self.trace.graphs for size in graph.sizes),
            ("generated kernels", f"{len(self.kernels)}, launches a run: {self._total('launches')}"),
            ("ATen kernels", f"calls a run: {self._total('externs')}"),
        ]
        for graph in self.compiled:
            rows.append(("generated code", str(graph.kernel_path or "(kept in memory)")))
            rows.append(("wrapper", str(graph.wrapper_path or "(kept in memory)")))
        total = sum(self.phases.values())
        rows.append(("seconds", f"{total:.3f}, of which"))
        rows.extend(("", f"{name:<10} {each:8.3f}  {each / total:4.0%}") for name, each in self.phases.items())
        return "\n".join(f"  {name:<19} {value}" for name, value in rows)

    def _total(self, what: str) -> int:
        return sum(getattr(graph.stats, what) for graph in self.compiled)

    def __str__(self) -> str:
        return f"{self.trace}\n\n{self.summary()}"


def report(compiled: Any) -> capture.Trace:
    """What was captured so far of what `compile` gave: graphs, sizes, guards, and why calls were compiled anew.

    Raises:
        TypeError: it is nothing that `compile` gave.
    """
    return capture.report(compiled)


def explain(fn: Any, *args: Any, dynamic: bool | None = None, **kwargs: Any) -> Explanation:
    """Compile `fn` afresh with inductor, call it once with these arguments, and report.

    Args:
        fn: a function or module, not compiled yet. Its side effects happen.
        dynamic: that of `compile`. The report says which sizes are symbols, what they may be, and what every condition
            on them is for.
    """
    compiled: list[CompiledGraph] = []

    def backend(graph: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> backends.Compiled:
        return backends.inductor(graph, inputs, on_compiled=compiled.append)

    run = capture.compile(fn, backend, dynamic=dynamic)
    with timed_phases(RUN) as phases:
        run(*args, **kwargs)
    return Explanation(capture.report(run), tuple(compiled), phases)
