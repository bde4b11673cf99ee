"""Shared objects that are damaged, foreign or in the way: the right result, a repaired entry, and nothing left mapped."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import pytest
import torch

import cpu_codegen.build as build_module
from cpu_codegen import CpuBackend
from cpu_codegen.names import entry_name
from inductor import BuildError, cache_root, ops

F32 = torch.float32
BUFFERS = {"x": ("in", F32), "y": ("out", F32)}


def doubled(outer, inner):
    x = ops.load("x", outer[0])
    ops.store("y", outer[0], ops.add(x, x))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def kernels(case, folder):
    """The backend, a module's text and its sources."""
    backend = CpuBackend()
    source = backend.emit(case("doubled", doubled, [10], [], BUFFERS).kernel)
    return backend, backend.module_text([source]), [source]


@pytest.fixture
def compiled_once(monkeypatch):
    """Compiling the same text again costs nothing; how often it was asked for."""
    known: dict = {}
    count: list = []
    compile = build_module._compile

    def remembered(name, suffix, parts, *rest):
        count.append(name)
        key = (name, *parts)
        if key not in known:
            known[key] = compile(name, suffix, parts, *rest)
        return known[key]

    monkeypatch.setattr(build_module, "_compile", remembered)
    return count


def works(kernels) -> None:
    backend, text, sources = kernels
    call = backend.build(text, sources)["doubled"]
    x, y = torch.randn(10), torch.empty(10)
    call(x, y)
    assert torch.equal(y, x + x)


def entry_of(folder: Path, name: str) -> Path:
    (found,) = [path.parent for path in folder.rglob(name) if not path.parent.name.startswith(".")]
    return found


def damages():
    """Those of inductor's own tests, where its sources lie beside ours."""
    support = Path(__file__).parents[2] / "inductor" / "tests" / "support"
    sys.path.insert(0, str(support))
    try:
        import inductor_faults
    finally:
        sys.path.remove(str(support))
    return inductor_faults.FILE


@pytest.mark.parametrize("name", ["kernels.so", "kernels.cpp", "manifest.json"])
def test_a_damaged_file_is_made_again(kernels, folder, compiled_once, name):
    """A truncated shared object ends a process that maps it; it is not mapped."""
    works(kernels)
    path = entry_of(folder, "kernels.so") / name
    content = path.read_bytes()
    for what, damage in damages().items():
        gc.collect()
        damage(path)
        compiled_once.clear()
        works(kernels)
        assert compiled_once == ["kernels"], what
        assert path.read_bytes() == content and not path.is_symlink(), what
    compiled_once.clear()
    works(kernels)
    assert compiled_once == []


def test_a_planted_library_does_not_run(kernels, folder, tmp_path):
    ran = tmp_path / "ran"
    works(kernels)
    entry = entry_of(folder, "kernels.so")
    trap = tmp_path / "trap.c"
    trap.write_text(
        f'#include <stdio.h>\n__attribute__((constructor)) static void f(void) {{ fclose(fopen("{ran}", "w")); }}'
    )
    planted = tmp_path / "planted.so"
    subprocess.run(["gcc", "-shared", "-fPIC", trap, "-o", planted], check=True)
    (entry / "kernels.so").write_bytes(planted.read_bytes())
    works(kernels)
    assert not ran.exists()
    # As somebody would do it who can write there, manifest and all.
    from inductor.cache import DiskCache, place

    content = planted.read_bytes()
    cache = DiskCache("cpu")
    cache.remove(entry.name)
    cache.put(entry.name, {"kernels.cpp": b"", "kernels.so": content})
    folder.chmod(0o777)
    place._places.clear()
    place._warned = False
    with pytest.warns(RuntimeWarning, match="other users may write"):
        works(kernels)
    assert not ran.exists()
    import ctypes

    ctypes.CDLL(str(planted))
    assert ran.exists(), "the trap itself works"


def test_a_disk_that_must_not_execute(kernels, folder, monkeypatch):
    """Mounted "noexec": the shared object is right, but can't be mapped where it lies."""
    open_library = sys.modules["cpu_codegen.backend"].open_library

    def picky(path):
        if folder in path.parents:
            raise OSError("failed to map segment from shared object")
        return open_library(path)

    monkeypatch.setattr("cpu_codegen.backend.open_library", picky)
    monkeypatch.setattr("inductor.cache.place._warned", False)
    with pytest.warns(RuntimeWarning, match="failed to map segment"):
        works(kernels)
    works(kernels)
    assert entry_of(folder, "kernels.so").exists()

    def refuse(path):
        raise OSError("failed to map segment from shared object")

    monkeypatch.setattr("cpu_codegen.backend.open_library", refuse)
    with pytest.raises(BuildError, match=r"can't be loaded.*failed to map segment"):
        works(kernels)


def test_an_entry_that_vanishes_before_it_is_mapped(kernels, folder, monkeypatch, compiled_once):
    import shutil

    open_library = sys.modules["cpu_codegen.backend"].open_library
    left = [2]

    def late(path):
        if left[0]:
            left[0] -= 1
            shutil.rmtree(path.parent)
        return open_library(path)

    monkeypatch.setattr("cpu_codegen.backend.open_library", late)
    works(kernels)
    assert left == [0] and compiled_once.count("kernels") == 3


# ---- Mapped as long as it is needed


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_library_is_unmapped_with_its_last_kernel(case, folder):
    backend = CpuBackend()
    sources = [backend.emit(case(f"copy{k}", doubled, [40 + k], [], BUFFERS).kernel) for k in range(2)]
    calls = dict(backend.build(backend.module_text(sources), sources))
    library = entry_of(folder, "kernels.so") / "kernels.so"
    x, y = torch.randn(41), torch.empty(41)
    del calls["copy0"]
    gc.collect()
    assert mapped(library)
    calls["copy1"](x, y)
    assert torch.equal(y, x + x)
    calls.clear()
    gc.collect()
    assert not mapped(library)


def test_threads_outlive_the_library_that_started_them(case, folder):
    """The runtime's workers wait in its code, which stays."""
    backend = CpuBackend()
    size = 4_000_000
    for _ in range(3):
        source = backend.emit(case("doubled", doubled, [size], [], BUFFERS).kernel)
        calls = dict(backend.build(backend.module_text([source]), [source]))
        x, y = torch.randn(size), torch.empty(size)
        calls["doubled"](x, y)
        assert torch.equal(y, x + x)
        calls.clear()
        gc.collect()
    torch.randn(size).sum()


def test_symbols_that_are_missing(kernels, folder):
    from cpu_codegen.launcher import _module

    works(kernels)
    path = entry_of(folder, "kernels.so") / "kernels.so"
    library = _module().open(os.fspath(path))
    symbol = entry_name(kernels[2][0].kernel)
    for names in (("no", f"{symbol}_work"), (symbol, "no")):
        with pytest.raises(OSError, match="no: no such function"):
            _module().kernel("k", library, *names, b"\0\0")
    with pytest.raises(OSError, match="nowhere"):
        _module().open("/nowhere.so")
    with pytest.raises(TypeError):
        _module().kernel("k", 3, "a", "b", b"")
    with pytest.raises(TypeError):
        type(library)()


# ---- Processes

SCRIPT = """
import json, sys, warnings
from pathlib import Path
import torch
from inductor import ops
sys.path.insert(0, {tests!r})
import conftest
from cpu_codegen import CpuBackend

def doubled(outer, inner):
    x = ops.load("x", outer[0])
    ops.store("y", outer[0], ops.add(x, x))

case = conftest.Case.make("doubled", doubled, [10], [], {{"x": ("in", torch.float32), "y": ("out", torch.float32)}})
backend = CpuBackend()
source = backend.emit(case.kernel)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    call = backend.build(backend.module_text([source]), [source])["doubled"]
x, y = torch.randn(10), torch.empty(10)
call(x, y)
maps = Path("/proc/self/maps").read_text().split()
print(json.dumps([torch.equal(y, x + x), [str(w.message) for w in seen], [m for m in maps if m.endswith("kernels.so")]]))
"""


def start(environment):
    script = textwrap.dedent(SCRIPT).format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=pipe, stderr=pipe, text=True)


def result(process):
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def test_two_processes_at_a_truncated_library(kernels, folder):
    """Each would be killed by SIGBUS."""
    works(kernels)
    library = entry_of(folder, "kernels.so") / "kernels.so"
    content = library.read_bytes()
    os.truncate(library, 4096)
    processes = [start({"INDUCTOR_CACHE_DIR": str(cache_root())}) for _ in range(2)]
    for right, seen, maps in map(result, processes):
        assert right and seen == [] and set(maps) == {str(library)}
    assert library.read_bytes() == content


def test_a_home_that_cannot_be_written(tmp_path):
    """One warning, and a temporary folder that is gone afterwards. Root, whom no mode stops, has a home below a device."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    process = start(
        {
            "INDUCTOR_CACHE_DIR": "",
            "XDG_CACHE_HOME": "",
            "HOME": "/dev/null/home" if os.getuid() == 0 else str(home),
            "TMPDIR": str(tmp_path),
        }
    )
    right, seen, maps = result(process)
    assert right and len(seen) == 1
    assert "Not a directory" in seen[0] if os.getuid() == 0 else "Permission denied" in seen[0]
    assert maps and all(path.startswith(str(tmp_path)) for path in maps)
    assert list(tmp_path.iterdir()) == [home]


def test_nothing_refers_to_a_dropped_call(kernels, folder):
    """The callable is the only owner: no table of all libraries keeps them."""
    backend, text, sources = kernels

    class Holder(dict):
        pass

    calls = Holder(backend.build(text, sources))
    gone = weakref.ref(calls)
    library = entry_of(folder, "kernels.so") / "kernels.so"
    del calls
    gc.collect()
    assert gone() is None and not mapped(library)
