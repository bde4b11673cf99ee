"""What was captured, for people: graphs, breaks with reasons and user lines, guards in words, recompiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .graph import Break, CapturedGraph
from .guards import Guard


@dataclass
class Trace:
    """All that one session captured, in order.

    ``frames`` counts captures of frames and resumed parts; ``recompiles`` says why a frame was captured again;
    ``skipped`` names frames left to the interpreter, with the reason. ``shared`` counts captures that were made of an
    equal module or function; their graphs are among ``graphs``, their guards are told where they were made.
    """

    graphs: list[CapturedGraph] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    frames: int = 0
    shared: int = 0

    @property
    def graph_count(self) -> int:
        """How many graphs were captured."""
        return len(self.graphs)

    @property
    def break_count(self) -> int:
        """How many times a graph ended before its function did."""
        return len(self.breaks)

    @property
    def op_count(self) -> int:
        """Calls in all graphs."""
        return sum(graph.op_count for graph in self.graphs)

    def __str__(self) -> str:
        lines = [
            f"{self.graph_count} graph(s), {self.op_count} operation(s), {self.break_count} break(s), "
            f"{len(self.guards)} guard(s)" + (f", {self.shared} capture(s) shared" if self.shared else "")
        ]
        for number, graph in enumerate(self.graphs):
            inputs = ", ".join(source.name for source in graph.sources)
            lines.append(f"\ngraph {number}({inputs}):")
            for node in graph.module.graph.nodes:
                if node.op.startswith("call") or node.op == "output":
                    where = node.meta.get("source", "")
                    lines.append(f"    {node.format_node() or node}" + (f"  # {where}" if where else ""))
        for title, entries in (
            ("breaks", [f"{b.reason}  # {b.user_line}" for b in self.breaks]),
            ("left to the interpreter", self.skipped),
            ("recompiles", self.recompiles),
            ("guards", [str(g) for g in self.guards]),
        ):
            if entries:
                lines.append(f"\n{title}:")
                counted = Counter(entries).items()
                lines.extend(f"    {entry}" + (f"  ({count} times)" if count > 1 else "") for entry, count in counted)
        return "\n".join(lines)
