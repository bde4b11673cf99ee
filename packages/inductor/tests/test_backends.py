"""Which backend serves a device type: told, registered, named by the environment, or the only one installed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from inductor_tracing import trace

from inductor import (
    Options,
    ReferenceBackend,
    backend_for,
    compile_graph,
    load_stored,
    prepare_backends,
    register_backend,
    traits_of,
)
from inductor import backends as backends_module
from inductor.cache.key import Surroundings
from inductor.cache.sources import package_hash
from symshapes import FakeMode, ambient

NOWHERE = torch.device("xpu")  # a device type for which nothing of ours is installed

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(name, ...)`: distributions with a backend for "xpu", each of its own name."""
    for table in ("_registered", "_loaded", "_only"):
        monkeypatch.setattr(backends_module, table, {})
    monkeypatch.delenv(backends_module.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    def install(*names: str) -> None:
        for name in names:
            module = name.replace("-", "_") + "_of_a_test"
            (tmp_path / f"{module}.py").write_text(
                "from inductor import ReferenceBackend\n\n\n"
                "class Backend(ReferenceBackend):\n"
                "    def __init__(self):\n"
                "        super().__init__('xpu')\n\n"
                "    def facts(self):\n"
                f"        return {{'name': {name!r}}}\n"
            )
            said = tmp_path / f"{module}-1.0.dist-info"
            said.mkdir()
            (said / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (said / "entry_points.txt").write_text(f"[{backends_module.GROUP}]\nxpu = {module}:Backend\n")

    yield install
    for name in [name for name in sys.modules if name.endswith("_of_a_test")]:
        del sys.modules[name]


def found(distribution: str | None = None) -> str:
    return backend_for(NOWHERE, distribution).facts()["name"]


def test_none_installed(install: Install) -> None:
    with pytest.raises(LookupError, match=r"no device backend for 'xpu' is installed: .* inductor\.device_backends"):
        backend_for(NOWHERE)


def test_the_only_one_is_taken_and_made_once(install: Install) -> None:
    install("one")
    assert found() == "one"
    assert backend_for(NOWHERE) is backend_for(torch.device("xpu", 0)) is backend_for(NOWHERE, "one")


def test_one_for_another_device_type_is_refused(install: Install, tmp_path: Path) -> None:
    install("one")
    path = tmp_path / "one_of_a_test.py"
    path.write_text(path.read_text().replace("'xpu'", "'cpu'"))
    with pytest.raises(LookupError, match=r"'one' gives for 'xpu' the backend one_of_a_test\.Backend, for 'cpu'"):
        backend_for(NOWHERE)


def test_of_several_none_is_taken(install: Install) -> None:
    install("one", "Two-of_them")
    for ask in (backend_for, traits_of):
        with pytest.raises(
            LookupError, match=r"installed by (one, two-of-them|two-of-them, one); name the one to take"
        ):
            ask(NOWHERE)
    assert found("one") == "one"
    assert found("two_of.them") == "Two-of_them"  # spelled as any installer understands it
    with pytest.raises(LookupError, match="'three' brings no device backend for 'xpu'; installed are"):
        backend_for(NOWHERE, "three")


def test_the_environment_names_one(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("one", "two")
    monkeypatch.setenv(backends_module.VARIABLE, "cuda=three, xpu=two")
    assert found() == "two"
    assert found("one") == "one"


@pytest.mark.parametrize("text", ["two", "xpu=", "=two"])
def test_an_environment_that_says_nothing(install: Install, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    install("one", "two")
    monkeypatch.setenv(backends_module.VARIABLE, text)
    with pytest.raises(LookupError, match="which is no <device type>=<distribution>"):
        backend_for(NOWHERE)


def test_a_registered_one_goes_before_installed_ones_and_a_named_one_before_it(install: Install) -> None:
    install("one", "two")
    mine = ReferenceBackend("xpu")
    register_backend(mine)
    assert backend_for(NOWHERE) is mine
    assert found("two") == "two"


def test_options_name_it_for_a_compile_and_the_cache_knows_it(install: Install, tmp_path: Path) -> None:
    install("one", "two")
    x = torch.randn(3)
    graph, (expected,) = trace(torch.sin, x)
    register_backend(ReferenceBackend())
    graphs = []
    for name in ("one", "two", "one"):
        with FakeMode():
            y = torch.empty(3, device=NOWHERE)
            moved, _ = trace(torch.sin, y)
        options = Options(cache_dir=str(tmp_path / "cache"), backends={"xpu": name})
        graphs.append(compile_graph(moved, [y], options))
    assert [each.stats.cache for each in graphs] == ["miss", "miss", "hit"]
    # What one printed no other builds.
    folder = graphs[0].wrapper_path.parent
    with pytest.raises(LookupError, match="installed by"):
        load_stored(folder)
    register_backend(ReferenceBackend("xpu"))
    with pytest.raises(LookupError, match=r"printed by one_of_a_test\.Backend, and inductor\..*ReferenceBackend is to"):
        load_stored(folder)
    register_backend(backend_for(NOWHERE, "one"))
    assert load_stored(folder).source == graphs[0].source
    # Nothing is asked about a type that is not in the graph.
    options = Options(cache=False, backends={"xpu": "nobody's"})
    torch.testing.assert_close(compile_graph(graph, [x], options)([x])[0], expected)


def test_a_module_of_one_file_is_part_of_the_key(install: Install, tmp_path: Path) -> None:
    """A backend need not be a package: what its only file says decides what it prints."""
    install("one")
    found()
    before = package_hash.__wrapped__("one_of_a_test")
    with open(tmp_path / "one_of_a_test.py", "a") as file:
        file.write("# changed\n")
    assert package_hash.__wrapped__("one_of_a_test") != before


def test_what_a_backend_inherits_and_a_partial_function_are_part_of_the_key(install: Install) -> None:
    install("one")
    backend = type(backend_for(NOWHERE))
    heir = type("Heir", (backend,), {"__module__": "inductor_heir_of_a_test.inner"})()
    sys.modules["inductor_heir_of_a_test"] = sys.modules[backend.__module__]
    rewrite = functools.partial(vars(backend)["facts"], None)
    for backends, functions in (([heir], []), ([], [rewrite])):
        surroundings = Surroundings.of(ambient(), Options(), backends, (), functions)
        assert backend.__module__ in dict(surroundings.sources)


class _Eager(ReferenceBackend):
    """Says what it was told to begin with."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.begun: list[bool] = []

    def prepare(self, *, compiling: bool) -> None:
        self.begun.append(compiling)


@pytest.mark.parametrize("stored", ["nothing", "something", "nothing ever"])
def test_compiling_is_begun_with_where_it_is_sure_to_be_needed(
    stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Used:
        @staticmethod
        def is_initialized() -> bool:
            return True

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch, "get_device_module", lambda device: Used)
    monkeypatch.setattr(backends_module, "_registered", {})
    backend = _Eager()
    register_backend(backend)
    if stored == "something":
        compile_graph(*trace(lambda x: x + 1, torch.ones(3)), Options(cache_dir=str(tmp_path)))
        backend.begun.clear()
    prepare_backends(Options(cache=stored != "nothing ever", cache_dir=str(tmp_path)))
    assert backend.begun == ([False] if stored == "something" else [False, True])
