"""Golden files: a difference fails and names the option that rewrites; with the option the file is written."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_difference_fails_and_is_rewritten(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("conftest_under_test", ROOT / "conftest.py")
    assert spec is not None and spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    path = tmp_path / "golden" / "some.txt"
    with pytest.raises(AssertionError, match=r"is not there.*--rewrite-goldens"):
        conftest.compare_with_golden(path, "one", rewrite=False)
    conftest.compare_with_golden(path, "one\n\n", rewrite=True)
    assert path.read_text() == "one\n"
    conftest.compare_with_golden(path, "one", rewrite=False)
    with pytest.raises(AssertionError, match=r"differs from.*--rewrite-goldens"):
        conftest.compare_with_golden(path, "two", rewrite=False)
    assert path.read_text() == "one\n"
