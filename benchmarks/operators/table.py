"""`python -m benchmarks --suite operators [--op NAME] [--dtype D]`: torch's operator database, compiled beside eager.

Flows in: options. Flows out: what is not right, totals by dtype and kind, and how many operators ran generated code.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.operators.cell import Cell
from benchmarks.operators.judge import ORDER
from benchmarks.operators.samples import DTYPES, KINDS, SKIPPED, USUAL, applies, operators, reason

VERDICTS = (*reversed(ORDER), "died", "eager raises")
Asked = tuple[str, str, str, int]


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks --suite operators", description=__doc__)
    parser.add_argument("--op", type=re.compile, help="operators whose whole name this regular expression matches")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help=f"{', '.join(USUAL)} by default")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--kind", action="append", choices=KINDS, help="both by default")
    parser.add_argument("--samples", type=int, default=4, help="sample calls an operator")
    parser.add_argument("--every", type=int, default=1, help="one operator in so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=int, default=300, help="limit of one cell")
    parser.add_argument(
        "--stage", choices=("compiled", "interpreted"), default="compiled", help="interpreted: without a C++ compiler"
    )
    parser.add_argument(
        "--failed-from", type=Path, help="only the cells that are not right in this file of an earlier run"
    )
    parser.add_argument("--json", type=Path, help="a cell a line; a file that exists is continued")
    options = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    names = [name for name in operators() if options.op is None or options.op.fullmatch(name)][:: options.every]
    skipped = {name: why for name in names if (why := reason(SKIPPED, name))}
    cells = read(options.json) if options.json and options.json.exists() else []
    done = {cell.key for cell in cells}
    again = {c.key for c in read(options.failed_from) if c.verdict != "right"} if options.failed_from else None
    asked = [
        (name, dtype, kind, options.samples)
        for name in names
        if name not in skipped
        for dtype in options.dtype or USUAL
        for kind in options.kind or KINDS
        if (name, dtype, kind) not in done and (again is None or (name, dtype, kind) in again)
        if applies(name, dtype, kind, options.device)
    ]
    for cell in run(asked, options.stage, options.jobs, options.seconds, options.device):
        cells.append(cell)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(vars(cell)) + "\n")
        if cell.verdict not in ("right", "eager raises"):
            console.print(
                f"{cell.op} {cell.dtype} {cell.kind}: {cell.verdict}: {cell.message}",
                markup=False, highlight=False, soft_wrap=True,
            )  # fmt: skip
    console.print(table(cells))
    for name, why in skipped.items():
        console.print(f"{name}: not run: {why}", highlight=False)
    console.print(generated(cells), highlight=False)


def read(file: Path) -> list[Cell]:
    """The cells of an earlier run."""
    return [Cell(**json.loads(line)) for line in file.read_text().splitlines()]


def run(asked: Sequence[Asked], stage: str, jobs: int, seconds: int, device: str = "cpu") -> Iterator[Cell]:
    """The cells as they come; a process that dies or hangs is one cell's, and another goes on."""
    waiting: queue.SimpleQueue[Asked] = queue.SimpleQueue()
    for one in asked:
        waiting.put(one)
    answers: queue.SimpleQueue[Cell] = queue.SimpleQueue()
    for _ in range(jobs):
        threading.Thread(target=_serve, args=(waiting, answers, stage, seconds, device), daemon=True).start()
    for _ in asked:
        yield answers.get()


def _serve(
    waiting: queue.SimpleQueue[Asked], answers: queue.SimpleQueue[Cell], stage: str, seconds: int, device: str
) -> None:
    child = None
    while True:
        try:
            one = waiting.get_nowait()
        except queue.Empty:
            break
        if child is None or child.poll() is not None:
            command = [sys.executable, "-m", "benchmarks.operators.child", stage, device]
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(one) + "\n")
        child.stdin.flush()
        limit = threading.Timer(seconds, child.kill)
        limit.start()
        line = child.stdout.readline()
        limit.cancel()
        if line:
            answers.put(Cell(**json.loads(line)))
        else:
            answers.put(Cell(*one[:3], "died", f"exit {child.wait()}"))
    if child is not None and child.stdin is not None:
        child.stdin.close()
        child.wait()


def table(cells: Sequence[Cell]) -> Table:
    """How many cells came out how, by dtype and kind."""
    counts = Counter((cell.dtype, cell.kind, cell.verdict) for cell in cells)
    out = Table(title="operators, compiled beside eager")
    out.add_column("dtype")
    out.add_column("kind")
    seen = [verdict for verdict in VERDICTS if any(cell.verdict == verdict for cell in cells)]
    for verdict in seen:
        out.add_column(verdict, justify="right")
    for dtype in DTYPES:
        for kind in KINDS:
            row = [counts[dtype, kind, verdict] for verdict in seen]
            if any(row):
                out.add_row(dtype, kind, *map(str, row))
    out.add_row("all", "", *(str(sum(cell.verdict == verdict for cell in cells)) for verdict in seen))
    return out


def generated(cells: Sequence[Cell]) -> str:
    """How many of the cells that compiled ran generated code."""
    compiled = [cell for cell in cells if cell.launches or cell.externs]
    alone = sum(not cell.externs for cell in compiled)
    left = Counter(cell.left.split(";")[0][:150] for cell in cells if cell.left)
    mixed = sum(bool(cell.externs and cell.launches) for cell in compiled)
    return (
        f"of {len(compiled)} cells with kernels {alone} ran generated code only, {mixed} generated code and ATen kernels, "
        f"{len(compiled) - alone - mixed} ATen kernels only; views and what eager only reads: {len(cells) - len(compiled)}\n"
        + "\n".join([f"in part left to eager: {left.total()}", *(f"{n:4} {why}" for why, n in left.most_common())])
    )
