"""The finder of our packages' modules gives what importlib gives, and leaves to it whatever is not as usual."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import py_compile
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import pytest

import symshapes
import symshapes.finding
import symshapes.rules.views
from symshapes import find_quickly

QUICK = symshapes.finding._Loader


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `quick_example` with a module `part` and a package `inner`, found quickly."""
    folder = tmp_path / "quick_example"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("from symshapes import find_quickly\nfind_quickly(__spec__)\n")
    (folder / "part.py").write_text("VALUE = 1\n")
    (folder / "inner" / "__init__.py").write_text("VALUE = 2\n")
    (folder / "inner" / "leaf.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield folder
    forget()
    symshapes.finding._FINDER.packages.discard("quick_example")


def forget() -> None:
    """Have everything imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "quick_example"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def value(name: str) -> int:
    """What a module of the package has, imported anew."""
    forget()
    found: int = importlib.import_module(f"quick_example.{name}").VALUE
    return found


def settle(file: Path, text: str, time: int) -> None:
    """Write a source as of that time."""
    file.write_text(text)
    os.utime(file, (time, time))


def test_our_own_modules_are_found_by_it() -> None:
    module = symshapes.rules.views
    assert type(module.__spec__.loader) is QUICK and type(symshapes.rules.__spec__.loader) is QUICK
    usual = PathFinder.find_spec(module.__name__, symshapes.rules.__path__)
    for name in ("origin", "cached", "has_location", "parent", "submodule_search_locations"):
        assert getattr(module.__spec__, name) == getattr(usual, name)
    assert inspect.getsource(module).startswith('"""')
    usual = PathFinder.find_spec("symshapes.rules", symshapes.__path__)
    assert symshapes.rules.__spec__.submodule_search_locations == list(usual.submodule_search_locations)


def test_modules_and_packages_and_what_is_in_them(package: Path) -> None:
    for _ in range(2):  # without bytecode, and from it
        assert [value("part"), value("inner"), value("inner.leaf")] == [1, 2, 3]
        assert type(sys.modules["quick_example.inner.leaf"].__spec__.loader) is QUICK
    assert (package / "__pycache__" / f"part.{sys.implementation.cache_tag}.pyc").exists()
    with pytest.raises(ModuleNotFoundError, match=r"quick_example\.missing"):
        importlib.import_module("quick_example.missing")


@pytest.mark.parametrize("time", (1_000_000_000, 1_000_000_002))
def test_a_source_of_another_size_or_time_is_compiled_again(package: Path, time: int) -> None:
    settle(package / "part.py", "VALUE = 1\n", 1_000_000_000)
    assert value("part") == 1 and value("part") == 1
    settle(package / "part.py", "VALUE = 10\n" if time == 1_000_000_000 else "VALUE = 4\n", time)
    assert value("part") == (10 if time == 1_000_000_000 else 4)


def test_bytecode_that_goes_by_the_content_is_checked_by_importlib(package: Path) -> None:
    py_compile.compile(
        str(package / "part.py"), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH, doraise=True
    )
    assert value("part") == 1
    settle(package / "part.py", "VALUE = 5\n", int(os.stat(package / "part.py").st_mtime))
    assert value("part") == 5


@pytest.mark.parametrize("damage", (b"", b"\0" * 16))
def test_bytecode_that_is_damaged_is_made_again(package: Path, damage: bytes) -> None:
    assert value("part") == 1
    Path(importlib.util.cache_from_source(str(package / "part.py"))).write_bytes(damage)
    assert value("part") == 1


@pytest.mark.parametrize("other", ("part", "part/__init__.py", "part.abi3.so"))
def test_of_several_with_a_name_importlib_says_which_counts(package: Path, other: str) -> None:
    path = package / other
    if "." in other:
        path.parent.mkdir(exist_ok=True)
        path.write_text("VALUE = 7\n")
    else:
        path.mkdir()
    importlib.invalidate_caches()
    importlib.import_module("quick_example")
    found, usual = (
        importlib.util.find_spec("quick_example.part"),
        PathFinder.find_spec("quick_example.part", [str(package)]),
    )
    assert found.origin == usual.origin and type(found.loader) is type(usual.loader)


def test_what_is_not_for_us_to_see_hides_nothing(package: Path) -> None:
    (package / "round").symlink_to(package / "round")
    (package / "inner" / "round.py").symlink_to(package / "inner" / "round.py")
    assert [value("part"), value("inner.leaf")] == [1, 3]


def test_a_module_that_is_gone_is_not_found(package: Path) -> None:
    assert value("part") == 1
    del sys.modules["quick_example.part"]
    (package / "part.py").unlink()
    with pytest.raises(ModuleNotFoundError, match=r"quick_example\.part"):
        importlib.import_module("quick_example.part")


def test_who_loads_from_folders_otherwise_does(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value("part") == 1
    monkeypatch.setattr(sys, "path_hooks", [lambda path: (_ for _ in ()).throw(ImportError), *sys.path_hooks])
    assert value("part") == 1
    assert type(sys.modules["quick_example.part"].__spec__.loader) is SourceFileLoader


def test_code_of_sources_that_were_moved_says_where_they_are(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value("part") == 1
    other = package.parent / "elsewhere"
    other.mkdir()
    forget()
    package.rename(other / "quick_example")
    monkeypatch.syspath_prepend(str(other))
    module = importlib.import_module("quick_example.part")
    code = module.__loader__.get_code("quick_example.part")
    assert code.co_filename == str(other / "quick_example" / "part.py")


def test_bytecode_elsewhere(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    assert value("part") == 1 and value("part") == 1
    assert importlib.import_module("quick_example.part").__cached__.startswith(str(tmp_path / "kept"))
    assert not (package / "__pycache__").exists()


def test_modules_that_come_later_are_found(package: Path) -> None:
    assert value("part") == 1
    (package / "late.py").write_text("VALUE = 6\n")
    importlib.invalidate_caches()
    assert importlib.import_module("quick_example.late").VALUE == 6


def test_what_another_loads_is_left_to_it(package: Path) -> None:
    class Loader(SourceFileLoader):
        pass

    found = PathFinder.find_spec("quick_example", [str(package.parent)])
    found.loader = Loader("quick_example", found.origin)
    find_quickly(found)
    find_quickly(None)
    assert "quick_example" not in symshapes.finding._FINDER.packages


def test_finders_put_before_that_of_sys_path_come_first() -> None:
    assert sys.meta_path.count(symshapes.finding._FINDER) == 1
    assert sys.meta_path.index(symshapes.finding._FINDER) < sys.meta_path.index(PathFinder)
