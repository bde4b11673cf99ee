"""Some of the large kernels in a process of its own: `python -m benchmarks.kernels.child DEVICE ROUNDS NAME ...`.

Out: a list of `KernelRow` as JSON, the last line printed; a kernel that raises is a row without times whose verdict says why. `in_processes`
runs several such processes and returns their rows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.contenders import USUAL, child_environment
from benchmarks.kernels.large import LARGE
from benchmarks.kernels.table import OURS, THREADS, KernelRow, Prepared, measure, prepare
from benchmarks.measure import Sample
from benchmarks.turns import await_turn, in_turn


def read(names: Sequence[str], rounds: int, device: str) -> list[KernelRow]:
    """Compile all, then time all."""
    rows = []
    prepared = list[Prepared]()
    with torch.no_grad():
        for name in names:
            try:
                prepared.append(prepare(LARGE[name], USUAL, device))
            except Exception as error:
                rows.append(KernelRow(name, None, {OURS: f"{type(error).__name__}: {error}"}))
        await_turn()
        return rows + [measure(one, rounds, device) for one in prepared]


def row_of(found: dict[str, Any]) -> KernelRow:
    """A row from its JSON."""
    return KernelRow(**{**found, "samples": {c: Sample(**sample) for c, sample in found["samples"].items()}})


def in_processes(names: Sequence[str], rounds: int, device: str, jobs: int) -> list[KernelRow]:
    """The rows of kernels dealt out to as many processes as `jobs`, with empty caches."""
    hands = [names[i::jobs] for i in range(min(jobs, len(names)))]
    with tempfile.TemporaryDirectory() as caches:
        commands = [
            ([sys.executable, "-m", __name__, device, str(rounds), *hand], child_environment(f"{caches}/{i}"))
            for i, hand in enumerate(hands)
        ]
        rows = list[KernelRow]()
        for hand, ended in zip(hands, in_turn(commands, jobs), strict=True):
            if ended.returncode:
                rows += [KernelRow(name, None, {OURS: f"its process died: {ended.reason}"}) for name in hand]
            else:
                rows += map(row_of, json.loads(ended.stdout.splitlines()[-1]))
    return rows


def main() -> None:
    device, rounds, *names = sys.argv[1:]
    torch.set_num_threads(THREADS)
    print(json.dumps([asdict(row) for row in read(names, int(rounds), device)]))


if __name__ == "__main__":
    main()
