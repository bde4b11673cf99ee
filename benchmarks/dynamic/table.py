"""`python -m benchmarks --suite dynamic ...`: all rows in four forms, ours beside the peer; JSON lines, one table, totals by family.

`--suite dynamic-models` is the same for whole models (`benchmarks/dynamic/zoo`), with automatic dynamism.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import child_environment
from benchmarks.dynamic import families, zoo  # noqa: F401  (fill the table)
from benchmarks.dynamic.cell import Cell
from benchmarks.dynamic.contender import CONTENDERS, FORMS
from benchmarks.dynamic.registry import ROWS
from benchmarks.dynamic.zoo.model import FAMILIES
from benchmarks.dynamic.zoo.table import by_model

MARKS = {"right": "✓", "over": "×", "wrong": "WRONG", "raised": "raised", "left": "left", "died": "DIED"}


def main(arguments: Sequence[str], *, models: bool = False) -> None:
    """All rows but those of whole models, in all forms; or those alone, in the automatic ones."""
    parser = argparse.ArgumentParser(prog="benchmarks --suite dynamic", description=__doc__)
    parser.add_argument("--only", type=re.compile, help="rows whose name this regular expression finds")
    parser.add_argument("--family", type=re.compile, help="rows whose family this regular expression finds")
    parser.add_argument(
        "--form", type=re.compile, default=re.compile(""), help="forms it finds, as in 'automatic, graph'"
    )
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="both by default")
    parser.add_argument("--failed-from", type=Path, help="only the cells that failed in this file of an earlier run")
    parser.add_argument("--seconds", type=int, default=240, help="limit of one cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes a contender")
    parser.add_argument("--json", type=Path, help="a cell a line; a file that exists is continued")
    parser.add_argument("--cache", type=Path, help="compiled kernels are kept here; a temporary folder by default")
    options = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    earlier = read(options.json) if options.json and options.json.exists() else []
    done = {(c.row, c.form, c.contender) for c in earlier}
    again = {(c.row, c.form) for c in read(options.failed_from) if not c.passed} if options.failed_from else None
    cells = list(earlier)
    rows = {name: row for name, row in ROWS.items() if (row.family in FAMILIES) is models}
    names = [n for n, row in rows.items() if _asked(options.only, n) and _asked(options.family, row.family)]
    forms = [f.name for f in FORMS if options.form.search(f.name) and not (models and f.dynamic)]
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**child_environment(str(options.cache or temporary)), "HF_HUB_OFFLINE": "1"}
        for contender in options.contender or CONTENDERS:
            pairs = [(n, f) for n in names for f in forms if (n, f, contender) not in done]
            if again is not None:
                pairs = [pair for pair in pairs if pair in again]
            for cell in run(contender, pairs, options.jobs, options.seconds, environment):
                cells.append(cell)
                if options.json:
                    with options.json.open("a") as file:
                        file.write(json.dumps(vars(cell)) + "\n")
                if not cell.passed:
                    console.print(told(cell), markup=False, highlight=False, soft_wrap=True)
    console.print(by_model(cells) if models else table(cells))
    console.print(totals(cells))


def _asked(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is None or pattern.search(text) is not None


def run(
    contender: str, pairs: Sequence[tuple[str, str]], jobs: int, seconds: int, environment: dict[str, str]
) -> Iterator[Cell]:
    """The cells of one contender as they come, from so many servers."""
    servers = []
    for at in range(jobs):
        command = [sys.executable, "-m", "benchmarks.dynamic.child", contender, str(seconds)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        text = "".join(f"{name}|{form}\n" for name, form in pairs[at::jobs])
        threading.Thread(target=_feed, args=(server, text), daemon=True).start()
        servers.append(server)
    for at in range(len(pairs)):
        server = servers[at % jobs]
        assert server.stdout is not None
        yield Cell(**json.loads(server.stdout.readline()))
    for server in servers:
        server.wait()


def _feed(server: subprocess.Popen[str], text: str) -> None:
    assert server.stdin is not None
    server.stdin.write(text)
    server.stdin.close()


def read(path: Path) -> list[Cell]:
    """The cells of a file of an earlier run."""
    return [Cell(**json.loads(line)) for line in path.read_text().splitlines() if line]


def told(cell: Cell) -> str:
    """One line on a failure."""
    return f"{cell.contender}: {cell.row} ({cell.form}): {cell.status}: {cell.why[:400]}"


def table(cells: Sequence[Cell]) -> Table:
    """One line a row that failed anywhere: its status and compiles in every form, ours / the peer's."""
    out = Table(title="rows with a failure: ours / torch.compile (compiles); the others pass everywhere")
    for heading in ("row", "family", *(form.name for form in FORMS)):
        out.add_column(heading, overflow="fold")
    by_row: dict[str, dict[tuple[str, str], Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.form, cell.contender] = cell
    for name, found in by_row.items():
        if all(cell.passed for cell in found.values()):
            continue
        texts = [" / ".join(_text(found.get((form.name, c))) for c in CONTENDERS) for form in FORMS]
        out.add_row(name, ROWS[name].family if name in ROWS else "", *texts)
    return out


def _text(cell: Cell | None) -> str:
    return "-" if cell is None else f"{MARKS.get(cell.status, cell.status)} ({cell.compiles})"


def totals(cells: Sequence[Cell]) -> Table:
    """Passed of all, by family and contender, with what became of the others."""
    out = Table(title="passed of all, by family")
    for heading in ("family", *CONTENDERS, *(f"{c}: otherwise" for c in CONTENDERS)):
        out.add_column(heading)
    for family in [*dict.fromkeys(c.family for c in cells), "all"]:
        here: dict[str, list[Any]] = {
            c: [x for x in cells if x.contender == c and family in (x.family, "all")] for c in CONTENDERS
        }
        passed = [f"{sum(x.passed for x in found)} of {len(found)}" for found in here.values()]
        others = [Counter(x.status for x in found if not x.passed) for found in here.values()]
        out.add_row(family, *passed, *(", ".join(f"{n} {s}" for s, n in o.most_common()) for o in others))
    return out
