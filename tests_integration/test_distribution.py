"""One version for all distributions, said once; and no requirement on one of ours that another's release could meet."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
VERSION = (ROOT / "VERSION").read_text().strip()
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
# Other people's projects on PyPI that are called like ours; their releases when this was written.
STRANGERS = {"capture": "0.1", "inductor": "0.3.83 0.2.11 0.2.0", "meta": "1.0.2 1.0.0 0.4.1 0.2.0 0.1.0"}


def metadata(package: str) -> ProjectMetadata:
    """What a build of the package would say of it."""
    return ProjectMetadata(str(ROOT / "packages" / package), PluginManager())


def siblings(package: str) -> list[Requirement]:
    """The package's requirements on our own packages, with and without its extras."""
    core = metadata(package).core
    extras = [line for lines in core.optional_dependencies.values() for line in lines]
    found = [Requirement(line) for line in [*core.dependencies, *extras]]
    return [each for each in found if each.name.replace("-", "_").lower() in PACKAGES]


@pytest.mark.parametrize("package", PACKAGES)
def test_all_have_the_one_version(package: str) -> None:
    assert metadata(package).version == VERSION
    assert "version" not in tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]


def test_the_version_is_said_once() -> None:
    # Without its local label: so no half of it is written anywhere else either. The change log tells of releases.
    done = subprocess.run(
        ["git", "grep", "-lFw", "-e", VERSION.split("+")[0], "--", ":!CHANGELOG.md"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode > 1:
        pytest.skip(f"not a checkout: {done.stderr.strip()}")
    assert done.stdout.split() == ["VERSION"]


def test_no_public_index_can_have_it() -> None:
    """Indexes refuse releases with a local label, so nobody can upload one that an exact pin on ours would take."""
    assert Version(VERSION).local, f"{VERSION} has no local label (`+...`)"
    assert str(Version(VERSION)) == VERSION


@pytest.mark.parametrize("package", PACKAGES)
def test_siblings_are_pinned_exactly(package: str) -> None:
    for requirement in siblings(package):
        assert str(requirement.specifier) == f"=={VERSION}", f"{package} requires {requirement}"
        strangers = [*STRANGERS.get(requirement.name, "").split(), Version(VERSION).public, f"{VERSION}.post1"]
        assert not list(requirement.specifier.filter(strangers, prereleases=True))
    assert package == "symshapes" or siblings(package)


@pytest.mark.parametrize("package", sorted(STRANGERS))
def test_ours_is_newer_than_any_namesake(package: str) -> None:
    """Where a wheelhouse and an index are both offered and nothing is pinned, pip takes the newest: ours."""
    assert all(Version(VERSION) > Version(other) for other in STRANGERS[package].split())


@pytest.mark.parametrize("package", PACKAGES)
def test_what_it_imports_of_ours_it_requires(package: str) -> None:
    """The other way about: a wheel installed with what it declares finds all that it imports."""
    sources = "\n".join(path.read_text() for path in (ROOT / "packages" / package / "src").rglob("*.py"))
    used = {
        other
        for other in PACKAGES
        for line in sources.splitlines()
        if other != package and line.startswith((f"import {other}", f"from {other} ", f"from {other}."))
    }
    assert used <= {requirement.name for requirement in siblings(package)}
