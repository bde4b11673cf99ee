"""Compiled graphs on disk: what makes a hit, what makes a miss, and damaged entries."""

import errno
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import inductor_faults as faults
import pytest
import torch
from inductor_tracing import trace

from inductor import CompiledGraph, DiskCache, Options, ReferenceBackend, compile_graph, load_stored, register_backend
from inductor import backends as backends_module
from inductor.cache import Untrusted, place, read_entry, store
from inductor.cache.tensors import Unstorable, pack, unpack


@pytest.fixture(autouse=True)
def reference_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backends_module, "_registered", {})
    register_backend(ReferenceBackend())
    yield


def compiled(function, *inputs, folder: Path, **options) -> CompiledGraph:
    graph, _ = trace(function, *inputs)
    return compile_graph(graph, inputs, Options(cache_dir=str(folder), **options))


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, x) * 2 + x.sum(-1)


X = torch.randn(4, 4)


def test_second_compile_is_a_hit_and_skips_the_phases(tmp_path: Path) -> None:
    first = compiled(scaled, X, folder=tmp_path)
    second = compiled(scaled, X, folder=tmp_path)
    assert (first.stats.cache, second.stats.cache) == ("miss", "hit")
    assert {"lower", "schedule", "emit"} <= first.stats.seconds.keys()
    assert {"lower", "schedule", "emit"}.isdisjoint(second.stats.seconds)
    assert first.source == second.source and first.kernels == second.kernels
    assert first.stats.launches == second.stats.launches > 0
    for graph in (first, second):
        for _ in range(2):
            torch.testing.assert_close(graph([X])[0], scaled(X))


@pytest.mark.parametrize(
    ("function", "inputs", "options"),
    [
        (lambda x: torch.mm(x, x) * 3 + x.sum(-1), (X,), {}),
        (lambda x: torch.mm(x, x) * -0.0 + x.sum(-1), (X,), {}),
        (scaled, (X.t(),), {}),
        (scaled, (X.double(),), {}),
        (scaled, (torch.randn(5, 5),), {}),
        (scaled, (X,), {"fuse": False}),
    ],
)
def test_misses(tmp_path: Path, function, inputs, options) -> None:
    compiled(scaled, X, folder=tmp_path)
    compiled(lambda x: torch.mm(x, x) * 0.0 + x.sum(-1), X, folder=tmp_path)
    other = compiled(function, *inputs, folder=tmp_path, **options)
    assert other.stats.cache == "miss"
    torch.testing.assert_close(other(list(inputs))[0], function(*inputs))


def test_constants_are_part_of_the_key(tmp_path: Path) -> None:
    graphs = [
        compiled(lambda x, c=c: x + c, X, folder=tmp_path) for c in (torch.ones(4), torch.ones(4), torch.zeros(4))
    ]
    assert [g.stats.cache for g in graphs] == ["miss", "hit", "miss"]
    torch.testing.assert_close(graphs[1]([X])[0], X + 1)
    torch.testing.assert_close(graphs[2]([X])[0], X)


def test_a_stored_graph_uses_the_constants_it_is_given(tmp_path: Path) -> None:
    constant = torch.ones(4)
    compiled(lambda x: x + constant, X, folder=tmp_path)
    again = compiled(lambda x: x + constant, X, folder=tmp_path)
    assert again.stats.cache == "hit"
    constant.mul_(3)
    torch.testing.assert_close(again([X])[0], X + 3)


CONSTANT = torch.arange(8.0).reshape(2, 4).t()[1:]


def with_a_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x[:3, :3], CONSTANT) * torch.topk(x, 2)[0][:3] + x[:3, :2].sum(-1, True)


@pytest.mark.parametrize(
    "name", ["wrapper.py", "wrapper_checked.py", "kernels_cpu.txt", "parts.json", "constants.bin", "manifest.json"]
)
def test_a_damaged_file_is_made_again(tmp_path: Path, name: str) -> None:
    first = compiled(with_a_constant, X, folder=tmp_path)
    assert first.wrapper_path is not None
    path = first.wrapper_path.parent / name
    content = path.read_bytes()
    for damage in faults.FILE.values():
        damage(path)
        second = compiled(with_a_constant, X, folder=tmp_path)
        assert second.stats.cache == "miss"
        torch.testing.assert_close(second([X])[0], with_a_constant(X))
        assert path.read_bytes() == content and not path.is_symlink()
    assert compiled(with_a_constant, X, folder=tmp_path).stats.cache == "hit"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"nonsense", b'{"format": 2}', b"null"])
def test_sound_files_of_no_meaning(tmp_path: Path, content: bytes) -> None:
    """As an entry would be that another version of this package wrote under the same key."""
    first = compiled(scaled, X, folder=tmp_path)
    assert first.wrapper_path is not None
    entry = read_entry(first.wrapper_path.parent)
    cache = DiskCache("graphs", tmp_path)
    cache.remove(entry.folder.name)
    cache.put(entry.folder.name, {**entry.files, "parts.json": content})
    second = compiled(scaled, X, folder=tmp_path)
    assert second.stats.cache == "miss"
    torch.testing.assert_close(second([X])[0], scaled(X))
    assert compiled(scaled, X, folder=tmp_path).stats.cache == "hit"


class Planted:
    """Whoever unpickles this makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_planted_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    first = compiled(scaled, X, folder=tmp_path)
    assert first.wrapper_path is not None
    code = f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n".encode()
    for name in ("parts.pickle", "parts.json", "wrapper.py", "manifest.json"):
        for content in (pickle.dumps(Planted(ran)), code):
            (first.wrapper_path.parent / name).write_bytes(content)
            torch.testing.assert_close(compiled(scaled, X, folder=tmp_path)([X])[0], scaled(X))
    assert not ran.exists()
    pickle.loads(pickle.dumps(Planted(ran)))
    assert ran.exists(), "the trap itself works"


def test_a_folder_that_others_may_write_is_no_graph(tmp_path: Path) -> None:
    graph = compiled(scaled, X, folder=tmp_path)
    assert graph.wrapper_path is not None
    load_stored(graph.wrapper_path.parent)
    tmp_path.chmod(0o777)
    with pytest.raises(Untrusted, match="other users may write"):
        load_stored(graph.wrapper_path.parent)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, files) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(store, "_write", full)
    monkeypatch.setattr(place, "_warned", False)
    with pytest.warns(RuntimeWarning, match="full"):
        graph = compiled(scaled, X, folder=tmp_path)
    assert graph.wrapper_path is None and "full" in graph.stats.cache
    torch.testing.assert_close(graph([X])[0], scaled(X))


def test_every_kind_of_constant_comes_back(tmp_path: Path) -> None:
    constants = {
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "spread": torch.arange(12)[::3],
        "expanded": torch.ones(1, 3).expand(2, 3)[:, 1:],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
        "bool": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]),
    }
    rows, content = pack({name: (name, value) for name, value in constants.items()})
    found = unpack(json.loads(json.dumps(rows)), content)
    for name, value in constants.items():
        again = found[name][1]
        assert again.dtype == value.dtype and again.stride() == value.stride()
        assert torch.equal(again, value), name
    with pytest.raises(Unstorable):
        pack({"c": ("c", torch.tensor([1j]).conj())})


def test_files_are_there_to_read(tmp_path: Path) -> None:
    graph = compiled(scaled, X, folder=tmp_path)
    assert graph.wrapper_path is not None and graph.kernel_path is not None
    assert graph.wrapper_path.read_text() == graph.source
    assert graph.kernel_path.read_text() == graph.kernel_source
    again = load_stored(graph.wrapper_path.parent)
    torch.testing.assert_close(again([X])[0], scaled(X))
    with pytest.raises(FileNotFoundError):
        load_stored(tmp_path / "nowhere")


def test_given_backends_are_not_cached(tmp_path: Path) -> None:
    graph, _ = trace(scaled, X)
    result = compile_graph(graph, [X], Options(cache_dir=str(tmp_path)), backends={"cpu": ReferenceBackend()})
    assert result.stats.cache == "off" and result.wrapper_path is None
    torch.testing.assert_close(result([X])[0], scaled(X))
