"""What Triton keeps on disk, and what of ours it reads: no kernel's text comes out of a file."""

from __future__ import annotations

import importlib.util
import linecache
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import inductor_faults as faults
import pytest
import torch

from inductor.cache import place
from inductor.ops import ops

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
import sympy
from triton import knobs
from triton.runtime.cache import FileCacheManager, get_cache_manager, get_dump_manager, get_override_manager

from inductor import BuildError, Kernel, KernelArg, record
from inductor.triton import TritonBackend
from inductor.triton.building import load_kernels
from inductor.triton.machine import keep_to_own_folders


def doubled(outer, inner):
    x = ops.load("x", outer[0])
    ops.store("y", outer[0], ops.add(x, x))


def source():
    index = sympy.Symbol("i0", integer=True, nonnegative=True)
    body = record(doubled, [index], [], lambda name: torch.float32)
    args = (KernelArg("x", "in", torch.float32), KernelArg("y", "out", torch.float32))
    size = (sympy.Integer(10),)
    kernel = Kernel("doubled", torch.device("cpu"), size, (), body, args, (), ())
    return TritonBackend("cpu").emit(kernel)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(place, "_places", {})
    with knobs.cache.scope():
        knobs.cache.reset()
        yield tmp_path


def test_a_safe_folder_stays_tritons_own(folders: Path) -> None:
    keep_to_own_folders()
    assert knobs.cache.dir == str(folders / "triton")


def test_a_shared_folder_is_not_used(folders: Path) -> None:
    (folders / "triton").mkdir()
    (folders / "triton").chmod(0o1777)
    keep_to_own_folders()
    used = Path(knobs.cache.dir)
    assert folders / "ours" in used.parents and used.stat().st_mode & 0o777 == 0o700
    keep_to_own_folders()
    assert Path(knobs.cache.dir) == used


@pytest.mark.parametrize("closed", [False, True])
def test_a_folder_in_it_that_others_may_write(folders: Path, monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    """Triton makes one for each kernel, under the umask of the moment: what lies there is loaded as it is."""
    inner = folders / "triton" / "kernel"
    inner.mkdir(parents=True)
    inner.chmod(0o777)
    monkeypatch.setattr(place, "_closed", lambda path: closed)  # where the tests run, all may be closed
    keep_to_own_folders()
    assert (knobs.cache.dir == str(folders / "triton")) == closed


def test_folders_that_others_cannot_enter(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    tmp_path.chmod(0o700)
    assert place._closed(inner)


def test_kernels_run_without_files_of_ours(folders: Path) -> None:
    backend, one = TritonBackend("cpu"), source()
    text = backend.module_text([one])
    lines = {name for name in linecache.cache if name.startswith("<triton")}
    call = backend.build(text, [one])["doubled"]
    again = backend.build(text, [one])["doubled"]
    for run in (call, again):
        x, y = torch.randn(10), torch.empty(10)
        run(x, y)
        assert torch.equal(y, x + x)
    assert list(folders.rglob("*.py")) == []
    assert len({name for name in linecache.cache if name.startswith("<triton")} - lines) == 1


def test_text_that_is_no_python(folders: Path) -> None:
    with pytest.raises(BuildError, match="not Python"):
        load_kernels("def (", ["doubled"])


# ---- Damage


@pytest.fixture
def files(folders: Path) -> Iterator[Callable[[], FileCacheManager]]:
    """Triton's cache manager of one key, as a new process has it."""
    keep_to_own_folders()
    yield lambda: get_cache_manager("ab" * 16)


def stored(manager: FileCacheManager) -> Path:
    group = {name: manager.put(content, name) for name, content in (("k.cubin", b"code" * 99), ("k.json", "{}"))}
    manager.put_group("k.json", group)
    manager.put(b"library" * 99, "stub.so")
    return Path(group["k.cubin"]).parent


def found(manager: FileCacheManager) -> tuple[bool, bool]:
    return manager.get_group("k.json") is not None, manager.get_file("stub.so") is not None


@pytest.mark.parametrize("name", ["k.cubin", "k.json", "__grp__k.json", "stub.so", "k.cubin.sha256"])
@pytest.mark.parametrize("damage", ["truncated to nothing", "truncated to half", "one bit", "garbage", "longer"])
def test_damaged_files_are_as_good_as_none(files: Callable[[], FileCacheManager], name: str, damage: str) -> None:
    folder = stored(files())
    assert found(files()) == (True, True)
    faults.FILE[damage](folder / name)
    assert found(files()) == (name == "stub.so", name != "stub.so")
    stored(files())
    assert found(files()) == (True, True)


@pytest.mark.parametrize("name", ["k.cubin", "k.json", "__grp__k.json"])
def test_a_group_is_whole_or_not_there(files: Callable[[], FileCacheManager], name: str) -> None:
    (stored(files()) / name).unlink()
    assert found(files()) == (False, True)


def test_triton_reads_ours_and_its_own_are_believed(files: Callable[[], FileCacheManager]) -> None:
    folder = stored(files())
    assert found(FileCacheManager(folder.name)) == (True, True)
    shutil.rmtree(folder)
    stored(FileCacheManager(folder.name))
    assert found(files()) == (True, True)


def test_what_users_override_is_not_verified(files: Callable[[], FileCacheManager], folders: Path) -> None:
    knobs.cache.dump_dir = knobs.cache.override_dir = str(folders / "dumped")
    get_dump_manager("ab" * 16).put("text", "k.ttir")
    path = next((folders / "dumped").rglob("k.ttir"))
    path.write_text("another text")
    assert get_override_manager("ab" * 16).get_file("k.ttir") == str(path)


def test_a_manager_of_the_users_stays(folders: Path) -> None:
    class Own(FileCacheManager):
        pass

    knobs.cache.manager_class = Own
    keep_to_own_folders()
    assert knobs.cache.manager_class is Own


def test_what_a_killed_process_left_goes(files: Callable[[], FileCacheManager]) -> None:
    folder = stored(files())
    for name, age in (("tmp.pid_1_dead", 0), ("tmp.pid_2_young", None)):
        (folder / name).mkdir()
        (folder / name / "half").write_text("")
        if age is not None:
            os.utime(folder / name, (age, age))
    files()
    assert {path.name for path in folder.glob("tmp.pid_*")} == {"tmp.pid_2_young"}
