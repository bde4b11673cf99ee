"""`python -m benchmarks.solving`: what part of a compile goes into reasoning about symbolic sizes.

A GPT-2 of many narrow layers is compiled by its first training step, in fresh processes: cold (no kernel on disk) and warm.
A frame of the stack in one of `SYMBOLIC` makes a moment one of symbolic reasoning, whatever it calls; inductor's index
arithmetic, which static sizes need as well, counts too: `static` tells how much that is. By three instruments:

- outside: py-spy, if there is one, reads the stack from another process 200 times a second, wherever the program is;
- sample: a timer stops the program every millisecond of wall time, and a sample weighs the time since the one before. It stops
  between two instructions of Python only, so that what C++ takes before it calls a function counts as that function's, and a
  pause of the collector's as that of whoever allocates: "outright" leaves out both, and the time of functions that call none;
- profile: cProfile, which makes calls of Python dear and so overrates what is made of many small ones.
"""

from __future__ import annotations

import argparse
import collections
import cProfile
import dis
import functools
import gc
import json
import pstats
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import child_environment

SYMBOLIC = (
    *(
        f"/symshapes/{part}.py"
        for part in ["arithmetic", "constraints", "env", "guards", "magic", "node", "numbers", "open_sizes", "promises"]
    ),
    "/symshapes/expr/",
    "/sympy/",
)
"""Parts of the names of files whose frames are symbolic reasoning."""
INTERVAL = 0.001
"""Seconds between two samples."""
RATE = 200
"""Samples a second from outside."""
INSTRUMENTS = ("outside", "sample", "profile")


class Sampler:
    """While it runs, adds up the seconds of the main thread by what it was at."""

    def __init__(self) -> None:
        self.found = {"total": 0.0, "symbolic": 0.0, "outright": 0.0, "collecting": 0.0}
        """Seconds."""
        self.entries: collections.Counter[str] = collections.Counter()
        """Seconds by the function that entered symbolic reasoning, and the one that it entered."""
        self._known: dict[str, bool] = {}
        self._last = self._begun = self._collected = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Samples what is run within."""
        previous = signal.signal(signal.SIGALRM, self._sample)
        gc.callbacks.insert(0, self._collect)
        self._last = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.callbacks.remove(self._collect)
            signal.signal(signal.SIGALRM, previous)

    def _collect(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.perf_counter()
        elif self._begun:
            self._collected += time.perf_counter() - self._begun
            self._begun = 0.0

    def _sample(self, _: int, frame: FrameType | None) -> None:
        now = time.perf_counter()
        spent = now - self._last
        if self._begun:  # a collection has ended, and its end is about to be told
            self._collected += now - self._begun
            self._begun = 0.0
        found, collected, self._collected = self.found, min(spent, self._collected), 0.0
        found["total"] += spent
        found["collecting"] += collected
        entered = outside = None
        is_first = frame is not None and frame.f_lasti <= _start(frame.f_code)
        innermost = frame
        while frame is not None:
            if self._is_symbolic(frame.f_code.co_filename):
                entered, outside = frame, frame.f_back
            frame = frame.f_back
        if entered is not None:
            found["symbolic"] += spent
            if not (is_first and entered is innermost):
                found["outright"] += spent - collected
            called = _name(outside.f_code) if outside else ""
            self.entries[f"{called} -> {_name(entered.f_code)}"] += spent
        self._last = time.perf_counter()

    def _is_symbolic(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = is_symbolic(file)
        return known


@functools.cache
def _resumes(code: bytes) -> int:
    return next(at for at in range(0, len(code), 2) if dis.opname[code[at]] == "RESUME")


def _start(code: CodeType) -> int:
    """Where a function's own work begins."""
    return _resumes(code.co_code)


def is_symbolic(file: str) -> bool:
    """Whether what a file holds is symbolic reasoning."""
    return any(part in file for part in SYMBOLIC)


def _name(code: CodeType) -> str:
    return f"{'/'.join(code.co_filename.split('/')[-2:])}:{code.co_name}"


def first_step(layers: int, *, dynamic: bool) -> Callable[[], Any]:
    """A training step of the model, which compiles it when it is first called; what is imported is so already."""
    import torch
    from transformers import GPT2Config, GPT2Model

    import capture
    import meta

    capture.config.on_error = "raise"
    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "n_embd": 32, "n_head": 2, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    module = GPT2Model(GPT2Config(n_layer=layers, use_cache=False, **sizes)).train()
    tokens = torch.randint(0, 100, (2, 16))
    module(tokens)[0].sum().backward()
    compiled = meta.compile(module, dynamic=dynamic)

    def taken() -> None:
        compiled(tokens)[0].sum().backward()

    return taken


def profiled(step: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by cProfile of a step, and of symbolic reasoning in it with the builtins that it calls."""
    profile = cProfile.Profile()
    profile.runcall(step)
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = symbolic = 0.0
    for function, (_, _, own, _, callers) in stats.items():
        total += own
        if is_symbolic(function[0]):
            symbolic += own
        elif function[0] == "~":
            symbolic += sum(spent[2] for caller, spent in callers.items() if is_symbolic(caller[0]))
    return total, symbolic


def child(how: str, layers: int, *, dynamic: bool) -> dict[str, Any]:
    """The first step in this process, by the instrument `how`."""
    step = first_step(layers, dynamic=dynamic)
    if how == "outside":
        step()
        return {}
    if how == "profile":
        total, symbolic = profiled(step)
        return {"total": total, "symbolic": symbolic}
    sampler = Sampler()
    with sampler.running():
        step()
    return {**sampler.found, "entries": sampler.entries}


def fresh_process(how: str, layers: int, cache: str, *, dynamic: bool) -> dict[str, Any]:
    """What `child` finds in a process of its own whose disk caches lie in `cache`."""
    command = [sys.executable, "-m", "benchmarks.solving", "--child", how, "--layers", str(layers)]
    if not dynamic:
        command.append("--static")
    stacks = Path(cache, "stacks")
    if how == "outside":
        options = ["--rate", str(RATE), "--format", "raw", "--full-filenames", "--function", "--idle", "--nonblocking"]
        command = ["py-spy", "record", *options, "--output", str(stacks), "--", *command]
    environment = child_environment(cache)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"failed in a fresh process:\n{done.stderr[-3000:]}")
    if how == "outside":
        return counted(stacks.read_text().splitlines())
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def counted(lines: Sequence[str]) -> dict[str, Any]:
    """What stacks as py-spy writes them (functions from the outermost on, and how often) say of the step."""
    total = symbolic = 0
    entries: collections.Counter[str] = collections.Counter()
    for line in lines:
        stack, _, times = line.rpartition(" ")
        frames = stack.split(";")
        begun = next((at for at, frame in enumerate(frames) if "taken (" in frame and "solving.py" in frame), None)
        if begun is None:
            continue
        total += int(times)
        entered = next((at for at in range(begun, len(frames)) if is_symbolic(frames[at])), None)
        if entered is not None:
            symbolic += int(times)
            entries[" -> ".join(_short(frame) for frame in frames[entered - 1 : entered + 1])] += int(times)
    seconds = {name: count / RATE for name, count in entries.items()}
    return {"total": total / RATE, "symbolic": symbolic / RATE, "entries": seconds}


def _short(frame: str) -> str:
    name, _, file = frame.partition(" (")
    return f"{'/'.join(file.partition(':')[0].split('/')[-2:])}:{name.rpartition('.')[2]}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.solving", description=__doc__)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes each; the table shows medians")
    parser.add_argument("--entries", type=int, default=0, help="so many places where symbolic reasoning is entered")
    parser.add_argument("--static", action="store_true", help="with static sizes only")
    parser.add_argument("--how", choices=INSTRUMENTS, action="append", help="all that there are by default")
    parser.add_argument("--json", type=Path, help="write every reading here")
    parser.add_argument("--child", choices=INSTRUMENTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.layers, dynamic=not options.static)))
        return
    readings: list[dict[str, Any]] = []
    for _ in range(options.rounds):
        for how in options.how or INSTRUMENTS[not shutil.which("py-spy") :]:
            for dynamic in (False,) if options.static else (True, False):
                with tempfile.TemporaryDirectory() as cache:
                    for disk in ("cold", "warm"):
                        found = fresh_process(how, options.layers, cache, dynamic=dynamic)
                        sizes = "dynamic" if dynamic else "static"
                        readings.append({"how": how, "sizes": sizes, "disk": disk, **found})
    show(readings, options.layers, options.entries)
    if options.json:
        options.json.write_text(json.dumps(readings, indent=1))


def show(readings: list[dict[str, Any]], layers: int, entries: int) -> None:
    """One line an instrument, kind of sizes and state of the disk."""
    console = Console(width=200)
    table = Table(title=f"{layers} layers, first training step: medians (lowest..highest)")
    for heading in (
        "instrument",
        "sizes",
        "kernels on disk",
        "seconds",
        "collector",
        "symbolic reasoning",
        "share",
        "outright",
    ):
        table.add_column(heading)
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for reading in readings:
        groups.setdefault((reading["how"], reading["sizes"], reading["disk"]), []).append(reading)
    for key, group in groups.items():
        times = [f"{_median(group, name):.2f}" for name in ("total", "collecting", "symbolic")]
        table.add_row(*key, *times, _share(group, "symbolic"), _share(group, "outright"))
    console.print(table)
    for key, group in groups.items():
        found: collections.Counter[str] = collections.Counter()
        for reading in group:
            found.update(reading.get("entries", {}))
        whole = sum(reading["total"] for reading in group)
        for place, seconds in found.most_common(entries):
            console.print(f"{' '.join(key)}: {100 * seconds / whole:5.2f} % {place}", highlight=False, soft_wrap=True)


def _median(group: list[dict[str, Any]], name: str) -> float:
    return statistics.median(reading.get(name, 0.0) for reading in group)


def _share(group: list[dict[str, Any]], name: str) -> str:
    shares = [100 * reading[name] / reading["total"] for reading in group if name in reading]
    return f"{statistics.median(shares):.1f} % ({min(shares):.1f}..{max(shares):.1f})" if shares else "-"


if __name__ == "__main__":
    main()
