"""What works on every Python: importing; and the sentence that says where capture works."""

import subprocess
import sys

import pytest

from capture import _native, bytecode
from capture.bytecode import decode, dialect


def test_imports():
    assert _native.stats()["by_call"] >= 0
    assert not _native.is_active()


def test_unsupported_versions_are_named(monkeypatch):
    dialect.current.cache_clear()
    monkeypatch.setattr(sys, "version_info", (3, 15, 0, "final", 0))
    try:
        with pytest.raises(
            RuntimeError, match=r"capture supports CPython 3\.11, 3\.12, 3\.13 and 3\.14; this is cpython 3\.15"
        ):
            decode(test_imports.__code__)
    finally:
        dialect.current.cache_clear()


@pytest.mark.skipif(sys.version_info[:2] not in dialect.SUPPORTED, reason="there is no dialect here to make one of")
def test_a_version_is_a_file(monkeypatch, tmp_path):
    here = dialect.current()
    text = f"import dataclasses\n\nfrom {bytecode.__name__} import v{here.version[0]}{here.version[1]} as like\n"
    text += "DIALECT = dataclasses.replace(like.DIALECT, version=(3, 99))\n"
    (tmp_path / "v399.py").write_text(text)
    monkeypatch.setattr(bytecode, "__path__", [*bytecode.__path__, str(tmp_path)])
    dialect.current.cache_clear()
    monkeypatch.setattr(sys, "version_info", (3, 99, 0, "final", 0))
    try:
        assert dialect.current().version == (3, 99)
        assert decode(test_imports.__code__)
    finally:
        dialect.current.cache_clear()
        sys.modules.pop("capture.bytecode.v399", None)
        vars(bytecode).pop("v399", None)


@pytest.mark.skipif(sys.version_info[:2] in dialect.SUPPORTED, reason="this Python is supported")
def test_says_so_here():
    with pytest.raises(RuntimeError, match=dialect.UNSUPPORTED_MESSAGE):
        decode(test_imports.__code__)


def _fails_to_import(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("imported_before", [False, True])
def test_sub_interpreters_are_refused(imported_before):
    """Those that share the GIL, and those that do not; with nothing of capture left behind."""
    script = f"""
import sys
if {imported_before}:
    import capture
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
kinds = [()] if sys.version_info >= (3, 13) else [{{"isolated": True}}, {{"isolated": False}}]
for options in kinds:
    made = interpreters.create(**dict(options))
    failed = None
    try:
        failed = interpreters.run_string(made, "import capture")
    except Exception as error:
        failed = error
    print(failed)
    interpreters.destroy(made)
import capture
print(capture.compile(lambda x: x + 1)(1))
"""
    *said, last = _fails_to_import(script).splitlines()
    assert last == "2" and said
    assert all("capture works in the main interpreter only, not in sub-interpreters" in line for line in said)


def test_free_threaded_builds_are_refused():
    script = """
import sysconfig
real = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else real(name)
try:
    import capture
except ImportError as error:
    print(error)
"""
    assert _fails_to_import(script) == "capture does not work on free-threaded builds of Python: use one with the GIL\n"
