"""Runs cells of one contender, each in a forked process of its own with a time limit.

In: contender, seconds, and `row|form` pairs on standard input. Out: one JSON line a cell, on standard output.
The compiler is imported once, before the forks, and compiles nothing there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.dynamic import families, zoo  # noqa: F401  (fill the table)
from benchmarks.dynamic.cell import Cell, judged
from benchmarks.dynamic.contender import FORMS, Form
from benchmarks.dynamic.registry import ROWS, Row

BEFORE = {"ours": ("meta", "cpu_codegen"), "torch.compile": ("torch._dynamo", "torch._inductor.compile_fx")}


def in_a_fork(row: Row, form: Form, contender: str, limit: int, folder: Path) -> Cell:
    """The cell, from a child process that the alarm ends."""
    file = folder / "cell.json"
    file.unlink(missing_ok=True)
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with contextlib.suppress(BaseException):
            file.write_text(json.dumps(asdict(judged(row, form, contender))))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    seconds = time.perf_counter() - start
    if file.exists():
        cell = Cell(**json.loads(file.read_text()))
        cell.seconds = seconds
        return cell
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "without a report"
    told = ("timed out", f"over {limit} s") if ended == "SIGALRM" else ("died", ended)
    return Cell(row.name, row.family, form.name, contender, *told, seconds=seconds)


def main() -> None:
    contender, limit = sys.argv[1:]
    for name in BEFORE[contender]:
        importlib.import_module(name)
    torch.set_num_threads(1)
    forms = {form.name: form for form in FORMS}
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            name, _, form = line.strip().partition("|")
            cell = in_a_fork(ROWS[name], forms[form], contender, int(limit), Path(folder))
            print(json.dumps(asdict(cell)), flush=True)


if __name__ == "__main__":
    main()
