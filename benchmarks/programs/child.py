"""Runs programs under one contender, each in a forked process of its own with a time limit.

In: contender, backend, seconds, folder and names as arguments. Out: one JSON line a program, and its result
as `<name>.pt` in the folder. Torch and the libraries are imported once, before the forks, and run nothing there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.programs import autograd, frameworks, language, models, modes, text, training, vision
from benchmarks.programs.registry import PROGRAMS, Compile, Program
from benchmarks.programs.values import plain

FAMILIES = (training, autograd, modes, models, language, text, vision, frameworks)


class Recorded:
    """`compile` of a contender; what was compiled is kept, to be asked for its report."""

    def __init__(self, contender: str, backend: str) -> None:
        self.contender, self.backend = contender, backend
        self.compiled: list[Any] = []
        if contender == "ours":
            import capture

            capture.config.on_error = "raise"
        elif contender == "torch.compile":
            from torch._inductor import config

            config.fallback_random = True
            config.compile_threads = 1

    def __call__(self, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return functools.partial(self, **options)
        if self.contender == "eager":
            return fn
        if self.contender == "torch.compile":
            return torch.compile(fn, backend=self.backend, **options)
        import meta

        self.compiled.append(meta.compile(fn, backend=self.backend, **options))
        return self.compiled[-1]

    def report(self) -> dict[str, Any]:
        """Graphs, breaks with their reasons, and frames left to the interpreter."""
        if self.contender == "ours":
            traces = [each.session.report for each in self.compiled]
            breaks = [f"{b.reason}  # {b.user_line}" for t in traces for b in t.breaks]
            skipped = [text for t in traces for text in t.skipped]
            return {"graphs": sum(t.graph_count for t in traces), "breaks": breaks, "skipped": skipped}
        if self.contender == "torch.compile":
            from torch._dynamo.utils import counters

            breaks = [reason for reason, count in counters["graph_break"].items() for _ in range(count)]
            return {"graphs": counters["stats"]["unique_graphs"], "breaks": breaks, "skipped": []}
        return {"graphs": 0, "breaks": [], "skipped": []}


def run(program: Program, compile: Compile, folder: Path) -> dict[str, Any]:
    """One program in this process; what became of it."""
    torch.manual_seed(0)
    random.seed(0)
    start = time.perf_counter()
    try:
        result = plain(program.run(compile))
    except BaseException as error:
        (folder / f"{program.name}.error").write_text(traceback.format_exc())
        return {"status": "raised", "why": f"{type(error).__name__}: {error}", "seconds": time.perf_counter() - start}
    seconds = time.perf_counter() - start
    torch.save(result, folder / f"{program.name}.pt")
    return {"status": "ran", "why": "", "seconds": seconds}


def in_a_fork(program: Program, contender: str, backend: str, limit: int, folder: Path) -> dict[str, Any]:
    """Run the program in a child process that the alarm ends; what it printed goes into a file beside the result."""
    for name in program.needs:
        importlib.import_module(name)
    file = folder / f"{program.name}.json"
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit)
        with contextlib.suppress(BaseException):
            log = os.open(folder / f"{program.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            compile = Recorded(contender, backend)
            found = run(program, compile, folder)
            file.write_text(json.dumps({**found, **compile.report()}))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "without a report"
    why = f"over {limit} s" if ended == "SIGALRM" else f"ended {ended}"
    return {"status": "raised", "why": why, "seconds": float(limit), "graphs": 0, "breaks": [], "skipped": []}


def main() -> None:
    contender, backend, limit, folder, *names = sys.argv[1:]
    for name in names:
        found = in_a_fork(PROGRAMS[name], contender, backend, int(limit), Path(folder))
        print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main()
