"""Compiled graphs by their program: what is found again, and what no longer is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import fx

from inductor import (
    CompiledGraph,
    DiskCache,
    Options,
    ReferenceBackend,
    backend_for,
    compile_graph,
    keep_program,
    load_program,
    lowering,
    program_key,
    register_backend,
)
from inductor.cache import sources
from inductor.cache.sources import package_hash
from inductor.lowerings import LOWERINGS
from inductor.passes import GRAPH_PASSES

CPU = torch.device("cpu")
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def reference_backend() -> Iterator[None]:
    before = backend_for(CPU)
    register_backend(ReferenceBackend("cpu"))
    yield
    register_backend(before)


def compiled(options: Options) -> CompiledGraph:
    x = torch.randn(3)
    graph = fx.Graph()
    given = graph.placeholder("x")
    given.meta["val"] = x
    result = graph.call_function(aten.sin.default, (given,))
    result.meta["val"] = x
    graph.output((result,))
    return compile_graph(fx.GraphModule(torch.nn.Module(), graph), [x], options)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(cache_dir=str(tmp_path))


def key_of(options: Options, text: str = "sin", kinds: tuple[str, ...] = ("cpu",)) -> str | None:
    return program_key(text, kinds, options)


def kept(options: Options) -> str:
    key = key_of(options)
    assert key is not None and load_program(key, options) is None
    keep_program(key, compiled(options), "a note", options)
    return key


def test_what_was_kept_is_found(options: Options) -> None:
    found = load_program(kept(options), options)
    assert found is not None and found.note == "a note" and found.graph.stats.cache == "hit"
    x = torch.randn(3)
    torch.testing.assert_close(found.graph([x])[0], x.sin())


def test_what_decides_is_part_of_the_key(options: Options) -> None:
    keys = [key_of(options), key_of(options, "cos"), key_of(replace(options, fuse=False)), key_of(options, kinds=())]
    torch.set_default_dtype(torch.float64)
    try:
        keys.append(key_of(options))
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(set(keys)) == len(keys) and None not in keys
    assert key_of(options) == keys[0] == key_of(replace(options, cache_dir=None))


@pytest.mark.parametrize("change", [{"cache": False}, {"freezing": True}])
def test_what_is_not_kept(options: Options, change: dict[str, bool]) -> None:
    assert key_of(replace(options, **change)) is None


def test_nothing_is_kept_of_what_is_not_stored(options: Options) -> None:
    key = key_of(options)
    assert key is not None
    keep_program(key, compiled(replace(options, cache=False)), "a note", options)
    assert load_program(key, options) is None


def test_a_graph_that_is_gone(options: Options) -> None:
    key = kept(options)
    DiskCache("graphs", options.cache_dir).reset()
    assert load_program(key, options) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"graph": 1}',
        b"\xff",
        json.dumps({"graph": "0" * 64, "note": ""}).encode(),
        b'{"graph": "../../elsewhere", "note": ""}',
    ],
)
def test_sound_files_of_no_meaning(options: Options, content: bytes) -> None:
    key = key_of(options)
    assert key is not None
    DiskCache("programs", options.cache_dir).put(key, {"program.json": content})
    assert load_program(key, options) is None


def test_nothing_is_kept_with_lowerings_of_somebody_elses(options: Options) -> None:
    assert aten.exp.default in LOWERINGS
    known = LOWERINGS.pop(aten.exp.default)
    try:
        assert key_of(options) is None
        lowering(aten.exp.default)(lambda builder, x: x)
        assert key_of(options) is None
    finally:
        LOWERINGS[aten.exp.default] = known
    assert key_of(options) is not None


def test_nothing_is_kept_with_passes_of_somebody_elses(options: Options) -> None:
    taken = GRAPH_PASSES.pop()
    try:
        assert key_of(options) is None
    finally:
        GRAPH_PASSES.append(taken)
    assert key_of(options) is not None


def test_a_packages_sources_are_read_once_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "of_this_test"
    (package / "inner").mkdir(parents=True)
    files = [package / "__init__.py", package / "inner" / "code.h", package / "notes.txt"]
    for file in files:
        file.write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "_SETTLED", 0.0)
    read: list[object] = []
    hashed = sources._content_hash
    monkeypatch.setattr(sources, "_content_hash", lambda files: read.append(files) or hashed(files))

    def now() -> str:
        return package_hash.__wrapped__("of_this_test", str(tmp_path / "cache"))

    first = now()
    assert now() == first and len(read) == 1
    files[2].write_text("of no interest")
    assert now() == first and len(read) == 1
    files[1].write_text("2")  # as long as before
    changed = now()
    assert changed != first and len(read) == 2
    files[1].rename(package / "inner" / "other.h")
    assert now() not in (first, changed)


@pytest.mark.parametrize("files", [{"other": b"1"}, {"hash": b"\xff"}, {"hash": b"short"}])
def test_hashes_of_no_meaning(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "of_these_tests"
    package.mkdir()
    (package / "__init__.py").write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "_SETTLED", 0.0)
    place = tmp_path / "cache"
    right = package_hash.__wrapped__("of_these_tests", str(place))
    (entry,) = place.rglob("sources/*/[!.]*")
    cache = DiskCache("sources", place)
    cache.remove(entry.name)
    cache.put(entry.name, files)
    assert package_hash.__wrapped__("of_these_tests", str(place)) == right


def test_sources_that_have_just_changed_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of files are those of a coarse clock: a second change might not be seen."""
    package = tmp_path / "of_that_test"
    package.mkdir()
    (package / "__init__.py").write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    package_hash.__wrapped__("of_that_test", str(tmp_path / "cache"))
    assert DiskCache("sources", tmp_path / "cache").is_empty()
