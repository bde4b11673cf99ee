"""What works on every Python: importing; and the sentence that says where capture works."""

import sys

import pytest

from capture import _native
from capture.bytecode import decode, dialect


def test_imports():
    assert _native.stats()["by_call"] >= 0
    assert not _native.is_active()


def test_unsupported_versions_are_named(monkeypatch):
    dialect.current.cache_clear()
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    try:
        with pytest.raises(RuntimeError, match=r"capture supports CPython 3\.11 and 3\.12; this is cpython 3\.14"):
            decode(test_imports.__code__)
    finally:
        dialect.current.cache_clear()


@pytest.mark.skipif(sys.version_info[:2] in dialect.SUPPORTED, reason="this Python is supported")
def test_says_so_here():
    with pytest.raises(RuntimeError, match=dialect.UNSUPPORTED_MESSAGE):
        decode(test_imports.__code__)
