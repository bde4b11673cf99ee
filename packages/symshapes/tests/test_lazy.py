"""Modules that are imported while programs run."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, threading, time
import of_names
from symshapes import import_whole

begun = threading.Thread(target=READ)
begun.start()
while "takes_long" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os._exit(0 if getattr(sys.modules["takes_long"], "finished", False) else 1)
begun.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert import_whole("takes_long").finished
"""


OF_NAMES = """
from symshapes import lazy_package

lazy_package(__name__, {"takes_long": ("finished",)})
"""

WITHIN_ONE = """
import threading
from symshapes import import_whole

other = threading.Thread(target=import_whole, args=("of_names",))
other.start()
other.join(60)
finished = not other.is_alive()
"""


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "takes_long.py").write_text("import time\ntime.sleep(0.5)\nfinished = True\n")
    (folder / "of_names.py").write_text(OF_NAMES)
    (folder / "within_one.py").write_text(WITHIN_ONE)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.append({str(folder)!r})\n{program}"],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("read", ["lambda: import_whole('takes_long')", "lambda: of_names.finished"])
def test_a_fork_finds_no_module_half_imported(tmp_path: Path, read: str) -> None:
    done = run(tmp_path, PROGRAM.replace("READ", read))
    assert done.returncode == 0, done.stderr


def test_threads_that_import_do_not_wait_for_each_other(tmp_path: Path) -> None:
    done = run(tmp_path, "from symshapes import import_whole\nassert import_whole('within_one').finished")
    assert done.returncode == 0, done.stderr


FORKS = """
import os, sys
import symshapes

def forked(times):
    child = os.fork() if times else 0
    if not child:
        if times:
            forked(times - 1)
            os._exit(0 if symshapes.import_whole("colorsys") else 1)
        return
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

forked(3)
"""


def test_a_child_forks_and_imports(tmp_path: Path) -> None:
    done = run(tmp_path, FORKS)
    assert done.returncode == 0 and not done.stderr, done.stderr
