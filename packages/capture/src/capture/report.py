"""What was captured, for people: graphs, breaks with reasons and user lines, guards in words, recompiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from symshapes import dataclass

from .causes import cause_of
from .graph import Break, CapturedGraph
from .guards import Guard, GuardKind
from .listing import listing
from .sources import Local


@dataclass
class Trace:
    """All that one session captured, in order.

    ``frames`` counts captures of frames and resumed parts; ``recompiles`` says why a frame was captured again;
    ``skipped`` names frames left to the interpreter, with the reason. ``shared`` counts captures that were made of an
    equal module or function; their graphs are among ``graphs``, their guards are told where they were made.
    Of code that is gone (``exec`` makes new code at each call) the lists have the latest captures alone.
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
            ", ".join(
                _counted(count, name)
                for count, name in (
                    (self.graph_count, "graph"),
                    (self.op_count, "operation"),
                    (self.break_count, "break"),
                    (len(self.guards), "guard"),
                )
            )
            + (f", {_counted(self.shared, 'capture')} shared" if self.shared else "")
        ]
        for number, graph in enumerate(self.graphs):
            inputs = ", ".join(source.name for source in graph.sources)
            lines.append(f"\ngraph {number}({inputs}):")
            lines.extend(f"    {line}" for line in listing(graph.module.graph))
            for title, entries in (("sizes", graph.sizes), ("conditions on sizes", graph.conditions)):
                if entries:
                    lines.append(f"  {title}:")
                    lines.extend(f"    {entry}" for entry in entries)
            if graph.frozen:
                lines.append(f"  constants: {', '.join(source.name for source in graph.frozen)}")
            lines.extend(f"  not frozen: {reason}" for reason in graph.unfrozen)
        others = [guard for guard in self.guards if guard.kind is not GuardKind.SHAPE]  # those stand with their graph
        for title, entries in (
            ("breaks", [f"{b.cause.id} {b.reason}  # {b.user_line}" for b in self.breaks]),
            ("left to the interpreter", [f"{cause_of(each).id} {each}" for each in self.skipped]),
            ("what to do", advice(self.breaks, self.skipped)),
            ("recompiles", self.recompiles),
            ("guards on arguments", [str(g) for g in others if _is_of_argument(g)]),
            ("guards on the rest of the program", [str(g) for g in others if not _is_of_argument(g)]),
        ):
            if entries:
                lines.append(f"\n{title}:")
                counted = Counter(entries).items()
                lines.extend(f"    {entry}" + (f"  ({count} times)" if count > 1 else "") for entry, count in counted)
        return "\n".join(lines)


def advice(breaks: Iterable[Break], skipped: Iterable[str]) -> list[str]:
    """For each cause of what was not captured, what can be done about it."""
    causes = [b.cause for b in breaks] + [cause_of(each) for each in skipped]
    return [f"{cause.id} {cause.title}. {cause.remedy} ({cause.page})" for cause in dict.fromkeys(causes)]


@dataclass(frozen=True)
class Failure:
    """Why a call did not fit: what was assumed at which line and is not so, and what varies since."""

    words: str
    user_line: str = ""
    freed: tuple[str, ...] = ()

    def __str__(self) -> str:
        freed = f"; dynamic from now on: {', '.join(self.freed)}" if self.freed else ""
        return f"{self.words}{freed}" + (f"  # {self.user_line}" if self.user_line else "")


def newly_dynamic(before: CapturedGraph | None, now: CapturedGraph | None) -> tuple[str, ...]:
    """The sizes and numbers, by where they are read, that vary in a graph and did not in the one before."""
    known = set() if before is None else set(before.dynamic)
    return () if now is None else tuple(source for source in now.dynamic if source not in known)


def _is_of_argument(guard: Guard) -> bool:
    """Whether a guard, on something else than sizes, is about what a call brings."""
    return guard.source is not None and isinstance(guard.source.root, Local)


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
