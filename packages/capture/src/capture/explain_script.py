"""A script run with everything that it calls captured, and what came of it in words.

In: a script and its arguments. Out: the script's own output, then functions with their graphs and breaks, recompiles, and what to do.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from types import CodeType
from typing import Any

import torch

from symshapes import dataclass

from . import _native
from .api import compile
from .backends import eager_backend
from .causes import cause_of
from .compiled import Choices, compiled_call, started
from .graph import Break, CapturedGraph
from .listing import listing
from .notices import CaptureWarning
from .replacement import Capture
from .report import advice
from .resume import origin_of
from .session import Session, where
from .trace_rules import is_library_line


@dataclass
class Function:
    """All that was captured of one code object, the parts that go on behind breaks included."""

    graphs: list[CapturedGraph] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)

    @property
    def op_count(self) -> int:
        """Calls in all its graphs."""
        return sum(graph.op_count for graph in self.graphs)


@dataclass
class Explained:
    """What came of one session: the functions in the order in which they were captured."""

    title: str
    session: Session
    functions: dict[str, Function] = field(default_factory=dict)

    def note(self, code: CodeType, captured: Capture) -> None:
        """A frame was captured."""
        origin = origin_of(code)
        function = self.functions.setdefault(where(code if origin is None else origin.code), Function())
        function.breaks.extend(captured.breaks)
        if captured.graph is not None:
            function.graphs.append(captured.graph)

    def lines(self, with_graphs: bool) -> Iterator[str]:
        """The report."""
        shown = {name: each for name, each in self.functions.items() if each.op_count}
        graphs = [graph for each in shown.values() for graph in each.graphs]
        told = [
            Break(*each) for each in dict.fromkeys((b.reason, b.user_line) for f in shown.values() for b in f.breaks)
        ]
        report = self.session.report
        operations = sum(graph.op_count for graph in graphs)
        yield f"{self.title}: {_counted(len(shown), 'function')} captured as {_counted(len(graphs), 'graph')} of {operations} operations;"
        yield f"    {_counted(len(told), 'break')}, {_counted(len(report.recompiles), 'recompile')}"
        for name, function in sorted(shown.items(), key=lambda each: is_library_line(each[0].rpartition(":")[0])):
            yield f"\n{name}"
            for graph in function.graphs:
                inputs = ", ".join(source.name for source in graph.sources)
                yield f"    graph of {_counted(graph.op_count, 'operation')} ({_short(inputs)})"
                if with_graphs:
                    yield from (f"        {line}" for line in listing(graph.module.graph))
            for reason, line in dict.fromkeys((b.reason, b.user_line) for b in function.breaks):
                yield f"    {cause_of(reason).id} {reason}  # {line}"
        skipped = [each for each in report.skipped if _is_of(each, shown)] or report.skipped[:_MOST]
        for title, entries in (
            ("captured again, since a guard failed", report.recompiles),
            ("left to the interpreter", [f"{cause_of(each).id} {each}" for each in skipped]),
        ):
            if entries:
                yield f"\n{title}:"
                yield from (f"    {entry}" for entry in entries)
        todo = advice(told, skipped)
        if todo:
            yield "\nwhat to do:"
            yield from (f"    {entry}" for entry in todo)


_MOST = 20


def _is_of(skipped: str, functions: dict[str, Function]) -> bool:
    return any(skipped.startswith(f"{name}:") for name in functions)


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 4] + " ..."


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def explain_script(
    script: str, args: Sequence[str], *, with_graphs: bool = False, print: Callable[[str], Any] = print
) -> int:
    """Run a script as Python would, what it calls captured and run eagerly graph by graph, and print the report; the exit status.

    What the script compiles itself, by ``torch.compile`` too, is told of apart. Code that modules run while they are imported is not captured.
    """
    explained: list[Explained] = []

    def told(session: Session) -> None:
        root = session.root
        made = Explained(
            f"compiled by the script, {where(root)}" if root is not None and explained else script, session
        )
        session.backend = eager_backend
        session.watch = made.note
        explained.append(made)

    def run() -> None:
        runpy.run_path(script, run_name="__main__")

    started.append(told)
    try:
        with _as_the_script(script, args), _not_while_importing(), _compiled_by_us():
            status = _status(compiled_call(run, Choices(eager_backend, None, False)))
    finally:
        started.remove(told)
    for each in explained:
        if each.functions or each is explained[0]:
            print("")
            for line in each.lines(with_graphs):
                print(line)
    return status


def _status(run: Callable[[], None]) -> int:
    """What the script leaves the process with; an exception is shown as Python would."""
    try:
        run()
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _as_the_script(script: str, args: Sequence[str]) -> Iterator[None]:
    """Arguments and the path of modules as the script is to find them."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)
            yield
    finally:
        sys.argv, sys.path[:] = argv, path


@contextlib.contextmanager
def _not_while_importing() -> Iterator[None]:
    """Hold back the capture in all that runs beneath an import."""
    found: Any = vars(importlib)["_bootstrap"]
    code = found._find_and_load.__code__
    _native.mark_skip(code, recursive=True)
    try:
        yield
    finally:
        _native.unmark_skip(code)


@contextlib.contextmanager
def _compiled_by_us() -> Iterator[None]:
    """What the script gives to ``torch.compile`` is captured by us, as it would be by ``compile``."""

    def compiled(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, **others: Any) -> Any:
        if model is None:
            return lambda model: compiled(model, fullgraph=fullgraph, dynamic=dynamic)
        return compile(model, dynamic=dynamic)

    before = vars(torch)["compile"]
    vars(torch)["compile"] = compiled
    try:
        yield
    finally:
        vars(torch)["compile"] = before
