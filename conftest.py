"""For all tests: Triton's kernels run under its interpreter, unless asked otherwise; tests may be interrupted; and golden files, with the one way to rewrite them.

In comes a text that a test made; what it is compared with lies in `golden/` beside the test.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# Triton binds its own library functions one way or the other when it is first imported, whoever does that.
# On a machine with a GPU: `TRITON_INTERPRET=0 pytest tests_integration/test_gpu.py`.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Some tests interrupt themselves, and a shell without job control starts what runs in its background with interrupts ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-goldens", action="store_true", help="write golden files anew instead of comparing")


def pytest_collection_finish() -> None:
    """What was imported so far stays to the end, and collecting garbage, which some tests do often, passes over it from here on."""
    gc.collect()
    gc.freeze()


def compare_with_golden(path: Path, text: str, *, rewrite: bool) -> None:
    """Assert that the file holds `text`, but for line ends at its end; with `rewrite` make it so."""
    text = text.rstrip("\n") + "\n"
    if rewrite:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return
    assert path.exists(), f"{path} is not there: if it should be, run with --rewrite-goldens"
    held = path.read_text()
    assert text == held, f"differs from {path}: if it should, run with --rewrite-goldens and read the difference"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: compare with `golden/<name>.txt` beside the test's file."""
    folder, rewrite = request.path.parent / "golden", request.config.getoption("--rewrite-goldens")
    return lambda name, text: compare_with_golden(folder / f"{name}.txt", text, rewrite=rewrite)
