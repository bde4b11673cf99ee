"""What Triton keeps on disk, and what of ours it reads: no kernel's text comes out of a file."""

from __future__ import annotations

import importlib.util
import linecache
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from inductor.cache import place
from inductor.ops import ops

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
import sympy
from triton import knobs

from inductor import BuildError, Kernel, KernelArg, record
from inductor.triton import TritonBackend
from inductor.triton import backend as backend_module


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
    backend_module.keep_to_own_folders()
    assert knobs.cache.dir == str(folders / "triton")


def test_a_shared_folder_is_not_used(folders: Path) -> None:
    (folders / "triton").mkdir()
    (folders / "triton").chmod(0o1777)
    backend_module.keep_to_own_folders()
    used = Path(knobs.cache.dir)
    assert folders / "ours" in used.parents and used.stat().st_mode & 0o777 == 0o700
    backend_module.keep_to_own_folders()
    assert Path(knobs.cache.dir) == used


@pytest.mark.parametrize("closed", [False, True])
def test_a_folder_in_it_that_others_may_write(folders: Path, monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    """Triton makes one for each kernel, under the umask of the moment: what lies there is loaded as it is."""
    inner = folders / "triton" / "kernel"
    inner.mkdir(parents=True)
    inner.chmod(0o777)
    monkeypatch.setattr(place, "_closed", lambda path: closed)  # where the tests run, all may be closed
    backend_module.keep_to_own_folders()
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
        backend_module.load_kernels("def (", ["doubled"])
