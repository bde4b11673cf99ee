"""`python -m benchmarks.changes`: programs that change something between two calls, by family: ours and the peer against plain Python.

In: the table of capture's tests. Out: how many programs of a family each gets right; with `--names`, those that it does not.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import capture

TESTS = Path(__file__).parent.parent / "packages/capture/tests"


def load() -> Any:
    """The module that holds the table."""
    sys.path.insert(0, str(TESTS))
    return importlib.import_module("changes.table")


def peer_recorder(table: Any) -> type:
    """The same calls through `torch.compile`; graphs run as they are."""

    class PeerRecorder(table.CapturingRecorder):  # type: ignore[misc]
        def prepare(self, fn: Any) -> Any:
            if id(fn) not in self._prepared:
                self._prepared[id(fn)] = fn, torch.compile(fn, backend=self._backend)
            return self._prepared[id(fn)][1]

    return PeerRecorder


def records_of(program: Any, recorder: Any) -> Any:
    """What a program's calls gave; the exception, if the program itself did not get to its end."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program(recorder)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return recorder.records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", help="only this one")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--names", action="store_true", help="name the programs that are not right")
    options = parser.parse_args()
    torch.set_num_threads(1)
    capture.config.on_error = "raise"
    table = load()
    contenders = {"ours": (table.CapturingRecorder, capture.reset)}
    if not options.ours_only:
        contenders["torch.compile"] = (peer_recorder(table), torch._dynamo.reset)
    right: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in ["programs", *contenders]}
    wrong: dict[str, list[str]] = {name: [] for name in contenders}
    for name, program in table.PROGRAMS.items():
        family = name.partition("-")[0]
        if options.family not in (None, family):
            continue
        right["programs"][family] += 1
        expected = records_of(program, table.Recorder())
        for contender, (recorder, reset) in contenders.items():
            if records_of(program, recorder()) == expected:
                right[contender][family] += 1
            else:
                wrong[contender].append(name)
            reset()
    console = Console()
    shown = Table("family", *right, title="right after a change between two calls")
    for family in right["programs"]:
        shown.add_row(family, *(str(right[column][family]) for column in right))
    shown.add_row("all", *(str(sum(right[column].values())) for column in right))
    console.print(shown)
    for contender, names in wrong.items() if options.names else ():
        console.print(f"{contender}, not right: {', '.join(names) or 'none'}")


if __name__ == "__main__":
    main()
