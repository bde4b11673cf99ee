"""Launches kept on disk: another process launches the same machine code the same way and imports nothing that prints kernels; what was not
known of then is compiled as ever. The driver is made of Python, the machine code real."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inductor.cache import DiskCache
from inductor.device import KernelArg
from inductor.triton import blocks, tiles
from inductor.triton.binary import Binary

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)

from inductor.triton import native, settled

PROGRAM = Path(__file__).with_name("launching.py")


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiled = tmp_path_factory.getbasetemp() / "triton"  # what tests compile that is the same

    def run(**what: Any) -> tuple[bool, list[list[Any]]]:
        environment = {**os.environ, "INDUCTOR_CACHE_DIR": str(tmp_path), "TRITON_CACHE_DIR": str(compiled)}
        environment.pop("TRITON_INTERPRET", None)
        command = [sys.executable, str(PROGRAM), str(tmp_path / "kernel"), json.dumps(what)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        known, launches = json.loads(done.stdout)
        return known, launches

    return run


def test_another_process_launches_the_same(run: Any) -> None:
    printed, first = run(times=True)
    assert not printed and len(first) == 2  # the first of the two is of the trials
    known, second = run()
    assert known and second == first[1:]
    known, (other, same) = run(misfit=True)
    assert known and same == second[0]
    assert other[0] != same[0] and other[1:3] == same[1:3], "the same blocks, compiled for another address"


def test_others_are_not_believed(run: Any, tmp_path: Path) -> None:
    assert not run(times=True)[0]
    assert not run(device="another GPU", times=True)[0]
    for file in tmp_path.rglob("launch.json"):
        file.write_text(file.read_text().replace('"block": ', '"block": 1'))
    assert not run(times=True)[0], "a file that was changed"


def test_what_may_change_is_not_kept(run: Any) -> None:
    """Where launches are recorded nothing is timed."""
    assert not run(times=True, recording=True)[0]
    assert not run(times=True)[0]


def test_launches_that_are_not_timed(run: Any) -> None:
    printed, first = run(tuning=False, times=True)
    assert not printed and run(tuning=False) == (True, first)
    assert not run(times=True)[0], "the fastest may be another one"


@pytest.mark.parametrize("tuning", [True, False])
def test_what_is_not_to_be_cached_is_neither_kept_nor_looked_for(tuning: bool, run: Any, tmp_path: Path) -> None:
    def kept() -> list[Path]:
        return [*tmp_path.rglob("launch.json")]

    assert not run(times=True, tuning=tuning, cache=False)[0] and not kept()
    assert not run(times=True, tuning=tuning)[0] and kept()
    assert not run(times=True, tuning=tuning, cache=False)[0]
    assert run(tuning=tuning)[0]


def test_launches_are_kept_where_graphs_are(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    assert not run(times=True, tuning=False, folder=str(folder))[0]
    assert [*folder.rglob("launch.json")] == [*tmp_path.rglob("launch.json")] != []
    assert run(tuning=False, folder=str(folder))[0]


def test_programs_that_share_rows(run: Any) -> None:
    """They bring the memory by which they tell each other totals."""
    asked = {"shape": [4, 1 << 20], "program": "x.cumsum(1)", "tuning": False}
    printed, first = run(times=True, **asked)
    assert not printed and run(**asked) == (True, first)


def test_what_triton_was_told_later_is_not_kept(run: Any) -> None:
    assert not run(tuning=False, times=True, told=True)[0]
    assert not run(tuning=False, times=True)[0]


def test_buffers_that_begin_anywhere_make_nobody_slower(run: Any) -> None:
    """Who calls a kernel first decides what is kept, and not what others run."""
    asked = {"shape": [64, 64], "program": "x * 2 + 1", "tuning": False}
    _, (anywhere,) = run(times=True, begins=1, **asked)
    known, (usual,) = run(times=True, **asked)
    assert not known and usual[0] != anywhere[0]
    assert run(begins=1, **asked) == (True, [anywhere])


LAUNCH = settled.Launch(4096, 64, 0, "03", True, "a key", blocks.Blocks(64, 1, True, 4, False).text())
BINARY = Binary("kernel", b"code", 128, 0, early=False)


@pytest.mark.parametrize(
    "said",
    [
        {"points": -1},
        {"points": 0},
        {"points": 1 << 63},
        {"block": 0},
        {"words": -1},
        {"assumes": "0"},
        {"assumes": "0303"},
        {"assumes": "of"},
        {"narrow": 1},
        {"points": True},
        {},
    ],
    ids=str,
)
def test_what_says_nothing_of_the_kernel(said: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "serves", lambda device: True)
    monkeypatch.setattr(settled, "read", lambda key: BINARY)
    monkeypatch.setattr(settled.Launches, "_key", lambda self, source: "0" * 64)
    buffers = [KernelArg("a", "in", torch.float32), KernelArg("b", "out", torch.float32)]
    source: Any = SimpleNamespace(kernel=SimpleNamespace(device=torch.device("cuda:0"), args=buffers))
    cache = DiskCache(settled.SECTION, tmp_path)
    cache.put("0" * 64, {"launch.json": json.dumps(LAUNCH._asdict() | said).encode()})
    found = settled.Launches(cache, lambda device: (), timed=False).find(source)
    assert found == (None if said else (LAUNCH, BINARY))


def test_what_waits_for_a_thread_is_done_by_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads may be busy for long, compiling other kernels."""
    waiting = Future[Any]()
    monkeypatch.setattr(native, "beside", lambda *what: waiting)
    monkeypatch.setattr(native, "on_device", lambda binary, device: native.Loaded(7, 128, 0, False, None, None))
    buffers = [KernelArg("a", "in", torch.float32), KernelArg("b", "out", torch.float32)]
    source: Any = SimpleNamespace(kernel=SimpleNamespace(device=torch.device("cuda:0"), args=buffers))
    code = settled._Code(source, LAUNCH, BINARY, pytest.fail)
    for _ in range(2):
        assert code.compiled(b"\3", True, 0) == (b"\3", True, 7, 128, 0, False, None)
    assert waiting.cancelled()


def test_at_the_interpreter_s_end_work_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr(native, "_workers", lambda: ended)
    assert native.beside(divmod, 7, 4).result() == (1, 3)
    with pytest.raises(ZeroDivisionError):
        native.beside(divmod, 7, 0).result()


def test_blocks_are_read_as_they_were_written() -> None:
    plain = blocks.Blocks(64, 8, persistent=True, warps=4, wide=False)
    tiled = blocks.Blocks(
        64, 8, persistent=False, warps=4, wide=True, tile=tiles.Tile(1, across=2), walks=(0, 2), stages=3
    )
    for each in (plain, tiled):
        assert blocks.read(each.text()) == each
