"""The build: in place it works with what is here; what is missing is named."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "hatch_build.py"


@pytest.fixture
def build():
    spec = importlib.util.spec_from_file_location("hatch_build_under_test", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def can_build(build):
    try:
        build.find_compiler(), build.include_directories()
    except build.BuildError as error:
        pytest.skip(str(error))


def test_builds_what_imports(build, can_build, tmp_path):
    output = build.build(tmp_path)
    assert output.name == f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    assert [each.name for each in tmp_path.iterdir()] == [output.name]
    script = (
        "import importlib.util as u\n"
        f"spec = u.spec_from_file_location('capture._native', {str(output)!r})\n"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "print(sorted(module.stats()))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert "hits" in done.stdout


def test_names_a_missing_compiler(build, monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(build.BuildError, match=r"C compiler.*apt install gcc"):
        build.find_compiler()


def test_names_missing_headers(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(build.BuildError, match=r"apt install\s+python3\.\d+-dev"):
        build.include_directories()


def test_shows_what_the_compiler_said(build, can_build, monkeypatch, tmp_path):
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    with pytest.raises(build.BuildError, match="no-such-flag"):
        build.build(tmp_path)
    assert list(tmp_path.iterdir()) == []
