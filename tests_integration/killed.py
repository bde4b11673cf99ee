"""Run as a program: children that are killed at each step of what they do to the disk, and what comes after them.

In: a folder. Out: one JSON line: for each of `WORKS`, and for "mapped", the number of steps and what was wrong.
The children are forks of a process that imported the parts and ran the compiler once; it comes after them, all forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import capture
import cpu_codegen.build as build
import cpu_codegen.launcher as launcher
import meta
from inductor import CompiledGraph, DiskCache
from inductor.cache import place, scratch

ROOT = Path(sys.argv[1])
LITTER = (".new-", ".gone-", "inductor-")
_CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.utime", "os.link"}


class Steps:
    """Counts what this process does to the disk and dies at one of them; nothing may be changed where it can be seen."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.count = 0
        self.lock = threading.Lock()
        sys.addaudithook(self.saw)
        for module, name in ((os, "write"), (os, "fsync"), (fcntl, "flock"), (launcher, "open_library")):
            setattr(module, name, self.counted(name, getattr(module, name)))

    def step(self, name: str, *args: Any) -> None:
        with self.lock:
            self.count += 1
            if self.count == self.last:
                if name == "write":
                    _write(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.step(name, *args)
            return function(*args, **kwargs)

        return run

    def saw(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _CHANGES or not isinstance(args[0], str | os.PathLike):
            return
        path = Path(args[0])
        if ROOT not in path.parents:
            return
        if event == "open":
            if not args[2] & (os.O_WRONLY | os.O_RDWR):
                return
            if not any(part.startswith((*LITTER, ".locks")) for part in path.parts):
                os.write(2, f"{path} is written where others see it\n".encode())
                os._exit(1)
        self.step(event)


_write = os.write


def program(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).relu().sum(-1)


def compiled() -> tuple[Any, list[str]]:
    """The program compiled as by a new process, and where its graphs came from."""
    meta.reset()
    place._places.clear()
    graphs: list[CompiledGraph] = []
    run = capture.compile(program, lambda g, inputs: meta.backends.inductor(g, inputs, on_compiled=graphs.append))
    x = torch.linspace(-2, 2, 12).view(3, 4)
    assert torch.equal(run(x), program(x)), "another result"
    return run, [graph.stats.cache for graph in graphs]


KEYS = ("ab" * 32, "cd" * 32)
FILES = {"a.txt": b"one" * 100, "b.bin": bytes(range(256))}


def entries() -> list[str]:
    """Entries in a section so small that each new one evicts all others; the first is damaged, the last removed."""
    place._places.clear()
    cache = DiskCache("small", size_bound=0)
    for key in (KEYS[0], KEYS[0], KEYS[1]):
        with cache.lock(key):
            entry = cache.get(key) or cache.put(key, FILES)
        assert entry.files == FILES and entry.path("b.bin").read_bytes() == FILES["b.bin"]
        if key == KEYS[0] and not (ROOT / "taken away").exists():
            entry.path("a.txt").rename(ROOT / "taken away")
    cache.reset()
    return ["hit"]


WORKS: dict[str, Callable[[], list[str]]] = {"graphs": lambda: compiled()[1], "entries": entries}


def outcome(action: Callable[[], Any]) -> str:
    """Empty if all went well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            action()
    except Exception:
        return traceback.format_exc()
    return ""


def in_a_fork(action: Callable[[], Any]) -> str:
    """The end of a child that does this: empty if all went well."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 2)
        failed = outcome(action)
        _write(2, failed.encode())
        os._exit(bool(failed))
    os.close(writing)
    with open(reading) as output:
        said = output.read()
    status = os.waitpid(child, 0)[1]
    return "killed" if os.WIFSIGNALED(status) else said or (f"status {status}" if status else "")


def litter() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.name.startswith(LITTER)]


def afresh() -> None:
    """As if nothing had ever been compiled on this machine."""
    for path in ROOT.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (ROOT / "tmp").mkdir()
    scratch._looked_through.clear()


def killed_everywhere(work: Callable[[], list[str]]) -> tuple[int, list[str]]:
    """The number of steps, and what was wrong."""

    def die(at: int) -> None:
        Steps(at)
        work()

    def recover() -> None:
        work()
        assert set(work()) == {"hit"}, "nothing was kept"

    wrong: list[str] = []
    at = 0
    while True:
        at += 1
        afresh()
        end = in_a_fork(lambda at=at: die(at))
        if end not in ("killed", ""):
            wrong.append(f"step {at}: {end}")
        for path in litter():
            os.utime(ROOT / path, (0, 0))  # long ago
        failed = outcome(recover)
        if failed or litter():
            wrong.append(f"after step {at}: {failed or litter()}")
        if end != "killed" or len(wrong) > 3:
            return at - 1, wrong


def replaced_while_mapped() -> tuple[int, list[str]]:
    """A library in use is replaced by another process, which finds its entry damaged: who has it mapped has it whole."""
    afresh()
    run, _ = compiled()
    (library,) = (path for path in ROOT.rglob("kernels.so") if not path.parent.name.startswith("."))
    wrong = []
    for damaged in ("manifest.json", "kernels.cpp"):
        with library.open("rb") as mapped:
            content = mapped.read()
            os.truncate(library.with_name(damaged), 7)
            failed = in_a_fork(compiled)
            held, now = os.fstat(mapped.fileno()), library.stat()
            if failed or held.st_ino == now.st_ino or held.st_nlink or os.pread(mapped.fileno(), 1 << 24, 0) != content:
                wrong.append(f"{damaged}: {failed or 'the library itself was written'}")
            if library.with_name(damaged).stat().st_size == 7:
                wrong.append(f"{damaged} is as it was")
        x = torch.full((3, 4), 3.0)
        assert torch.equal(run(x), program(x))
    return 2, wrong


def main() -> None:
    os.environ["INDUCTOR_CACHE_DIR"] = str(ROOT / "cache")
    tempfile.tempdir = str(ROOT / "tmp")
    capture.config.on_error = "raise"
    known: dict[Any, list[bytes]] = {}
    run = build._run

    def remembered(commands: list[list[str]], folder: str) -> None:
        """Compiling the same again costs nothing."""
        sources = [Path(word).read_bytes() for c in commands for word in c if word.startswith(folder) and ".c" in word]
        targets = [Path(command[command.index("-o") + 1]) for command in commands]
        key = (*sources, *(target.name for target in targets))
        if key not in known:
            run(commands, folder)
            known[key] = [target.read_bytes() for target in targets]
        for target, content in zip(targets, known[key], strict=True):
            target.write_bytes(content)

    build._run = remembered
    afresh()
    compiled()
    assert not litter()
    found = {name: killed_everywhere(work) for name, work in WORKS.items()}
    print(json.dumps({**found, "mapped": replaced_while_mapped()}))


if __name__ == "__main__":
    main()
