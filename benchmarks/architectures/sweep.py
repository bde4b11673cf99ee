"""`python -m benchmarks --suite architectures ...`: the command line; runs the pool, keeps JSON lines, prints the tables."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.architectures import catalogue
from benchmarks.architectures.pool import Limits, run
from benchmarks.architectures.probe import COMPILERS
from benchmarks.architectures.tables import captures, counts, failures, rows
from benchmarks.contenders import cache_environment

WAYS = ("default", "eager", "batched_mm", "grouped_mm")
"""Through experts: as a model does unless told; else in a loop over the experts, and in two ways in one product."""

GOOD = ("right", "undecided", "told", "not in eager")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks --suite architectures", description=__doc__)
    parser.add_argument("--only", type=re.compile, help="architectures whose name this regular expression finds")
    parser.add_argument("--failed-from", type=Path, help="only what failed in this file of an earlier sweep")
    parser.add_argument("--first", type=Path, help="a file of names to be run before the others")
    parser.add_argument("--mode", action="append", choices=("inference", "training"), help="both by default")
    parser.add_argument("--device", action="append", choices=("cpu", "cuda"), help="cpu by default; may be repeated")
    parser.add_argument(
        "--experts", action="append", choices=WAYS, help="only mixtures of experts, gone through so; may be repeated"
    )
    parser.add_argument("--length", action="append", type=int, help="of other inputs to follow; may be repeated")
    parser.add_argument("--backend", default="inductor", help="of both contenders")
    parser.add_argument("--peer", action="store_true", help="torch.compile beside ours")
    parser.add_argument(
        "--captures", type=Path, help="graphs alone, by all that torch has to capture them: the table goes to this file"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=240, help="limit of one case")
    parser.add_argument("--gigabytes", type=float, default=6, help="limit of one process's resident memory")
    parser.add_argument(
        "--total-seconds", type=float, default=float("inf"), help="the sweep ends then, unfinished or not"
    )
    parser.add_argument("--json", type=Path, help="a record a line; a file that exists is continued")
    parser.add_argument("--cache", type=Path, help="compiled kernels are kept here; a temporary folder by default")
    options = parser.parse_args(arguments)
    console = Console(width=160)
    devices = options.device or ["cpu"]
    modes = options.mode or ["inference", "training"]
    cases = [(device, mode) for device in devices for mode in modes]
    os.environ["HF_HUB_OFFLINE"] = "1"  # architectures come from their configurations alone
    records = read(options.json) if options.json and options.json.exists() else []
    contenders = ["ours", "torch.compile"] if options.peer else ["ours"]
    if options.captures:
        contenders = list(COMPILERS)
    if options.backend != "inductor":
        contenders = [f"{contender}, {options.backend}" for contender in contenders]
    asked = chosen(options)
    left = {contender: [n for n in asked if n not in _done(records, contender)] for contender in contenders}
    names = list(dict.fromkeys(itertools.chain(*left.values())))
    console.print(f"{len(names)} architectures, {len(records)} records read")
    limits = Limits(options.seconds, int(options.gigabytes * 2**30), time.monotonic() + options.total_seconds)
    with tempfile.TemporaryDirectory() as temporary:
        os.environ.update(cache_environment(str(options.cache or temporary)))
        # Processes of their own: the peer leaves its marks on torch.
        apart = [run(todo, cases, [c], options.jobs, limits, options.length or ()) for c, todo in left.items()]
        for record in itertools.chain(*apart):
            if record["contender"] == "eager" and record in records:
                continue
            records.append(record)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if record["status"] not in GOOD:
                console.print(told(record), markup=False, highlight=False)
    if options.experts:
        console.print(rows(records))
    console.print(counts(records))
    console.print(failures(records))
    if options.captures:
        options.captures.write_text(captures(records, len(asked)))


def _done(records: list[dict[str, Any]], contender: str) -> set[str]:
    """The architectures that the records hold, of this contender or as ones that do not run in eager mode."""
    return {r["name"] for r in records if r["contender"] in (contender, "eager")}


def chosen(options: argparse.Namespace) -> list[str]:
    """The architectures that are asked for."""
    names = catalogue.mixtures(options.experts) if options.experts else catalogue.names()
    if options.first:
        first = [n for n in options.first.read_text().split() if n in names]
        names = list(dict.fromkeys([*first, *names]))
    if options.failed_from:
        failed = {r["name"] for r in read(options.failed_from) if r["status"] not in GOOD}
        names = [n for n in names if n in failed]
    if options.only:
        names = [n for n in names if options.only.search(n)]
    return names


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def told(record: dict[str, Any]) -> str:
    """One line on a failure."""
    what = record["error"] or record["outputs"] + " | " + record["gradients"]
    return (
        f"{record['name']} {record['device']} {record['mode']} {record['contender']}: {record['status']}: {what[:600]}"
    )
