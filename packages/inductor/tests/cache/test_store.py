"""The disk cache: whole entries, one maker, a bound on size."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from inductor.cache import DiskCache, cache_root, reset

KEY = "ab" * 32


def test_put_and_get(tmp_path: Path) -> None:
    cache = DiskCache("room", tmp_path)
    assert cache.get(KEY) is None
    folder = cache.put(KEY, {"a.txt": b"1", "b.txt": b"2"})
    assert cache.get(KEY) == folder
    assert (folder / "a.txt").read_bytes() == b"1"
    assert cache.put(KEY, {"a.txt": b"other"}) == folder
    assert (folder / "a.txt").read_bytes() == b"1"
    cache.remove(KEY)
    assert cache.get(KEY) is None
    assert [p for p in folder.parent.iterdir() if p.suffix != ".lock"] == []


def test_the_oldest_go_first(tmp_path: Path) -> None:
    cache = DiskCache("room", tmp_path, size_bound=250)
    for at in range(3):
        folder = cache.put(f"{at}" * 64, {"x": b"." * 100})
        os.utime(folder, (at, at))
    assert cache.get("0" * 64) is not None  # used now
    cache = DiskCache("room", tmp_path, size_bound=250)
    cache.put("3" * 64, {"x": b"." * 100})
    assert [cache.get(f"{at}" * 64) is not None for at in range(4)] == [True, False, False, True]


def test_root_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    DiskCache("room").put(KEY, {"x": b""})
    assert cache_root().is_dir()
    reset()
    assert not cache_root().exists()
    monkeypatch.delenv("INDUCTOR_CACHE_DIR")
    assert cache_root().name.startswith("inductor_")


def _make(root: str, made: str) -> None:
    cache = DiskCache("room", root)
    with cache.lock(KEY):
        if cache.get(KEY) is None:
            time.sleep(0.2)
            cache.put(KEY, {"x": b"."})
            with open(made, "a") as file:
                file.write("made\n")


def test_two_processes_make_an_entry_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")  # a fresh interpreter would spend seconds importing torch
    made = tmp_path / "made"
    processes = [context.Process(target=_make, args=(str(tmp_path / "cache"), str(made))) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert made.read_text() == "made\n"
