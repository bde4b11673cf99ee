"""Distributions by what their entry points say, against the standard library's reading of the same path."""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import Distribution, DistributionFinder, distributions
from pathlib import Path

import pytest

from inductor.distributions import distributions_saying

GROUP = "a_group.of_a_test"
SAID = f"[{GROUP}]\nname = module:Thing\n"


def put(place: Path, folder: str, name: str, said: str | None) -> None:
    home = place / folder
    home.mkdir(parents=True)
    (home / ("PKG-INFO" if "egg" in folder.lower() else "METADATA")).write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    )
    if said is not None:
        (home / "entry_points.txt").write_text(said)


def names() -> list[str]:
    return [each.name for each in distributions_saying(GROUP)]


def test_all_that_is_installed_here() -> None:
    for group in ("console_scripts", "pytest11", "inductor.device_backends"):
        told = {each.name for each in distributions() if group in (each.read_text("entry_points.txt") or "")}
        assert {each.name for each in distributions_saying(group)} == told and (told or group != "pytest11")


def test_every_kind_of_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "wheel-1.dist-info", "wheel", SAID)
    put(tmp_path, "develop.egg-info", "develop", SAID)
    put(tmp_path, "silent-1.dist-info", "silent", None)
    put(tmp_path, "other-1.dist-info", "other", "[another]\nname = module:Thing\n")
    (tmp_path / "file.egg-info").write_text("Name: file\n")
    egg = tmp_path / "unpacked-1.egg"
    put(egg, "EGG-INFO", "unpacked", SAID)
    put(tmp_path / "not_an_egg", "EGG-INFO", "stray", SAID)
    archive = tmp_path / "packed-1-py3.egg"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("EGG-INFO/PKG-INFO", "Metadata-Version: 2.1\nName: packed\nVersion: 1\n")
        file.writestr("EGG-INFO/entry_points.txt", SAID)
    places = [tmp_path, egg, tmp_path / "not_an_egg", archive, tmp_path / "missing", tmp_path / "file.egg-info"]
    monkeypatch.setattr(sys, "path", [*map(str, places)])
    assert sorted(names()) == ["develop", "packed", "unpacked", "wheel"]


def test_the_first_on_the_path_hides_others_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "new", "some_thing-2.dist-info", "some-thing", "[another]\nname = module:Thing\n")
    put(tmp_path / "old", "some.thing-1.dist-info", "some-thing", SAID)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "new"), str(tmp_path / "old")])
    assert names() == []
    monkeypatch.setattr(sys, "path", [str(tmp_path / "old"), str(tmp_path / "new")])
    assert names() == ["some-thing"]


def test_the_current_folder_is_on_the_path_as_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "here-1.dist-info", "here", SAID)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    assert names() == ["here"]


def test_a_path_object_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "here-1.dist-info", "here", SAID)
    monkeypatch.setattr(sys, "path", [tmp_path])
    assert names() == [each.name for each in distributions()] == ["here"]


def test_other_finders_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "found-1.dist-info", "found", SAID)
    put(tmp_path, "quiet-1.dist-info", "quiet", None)

    class Finder(DistributionFinder):
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object = None) -> list[Distribution]:
            return [Distribution.at(tmp_path / name) for name in ("found-1.dist-info", "quiet-1.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert "found" in names() and "quiet" not in names()
