"""Modules that are imported while programs run."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys, threading, time
from symshapes import import_whole

begun = threading.Thread(target=import_whole, args=("takes_long",))
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


def test_a_fork_finds_no_module_half_imported(tmp_path: Path) -> None:
    (tmp_path / "takes_long.py").write_text("import time\ntime.sleep(0.5)\nfinished = True\n")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.append({str(tmp_path)!r})\n{PROGRAM}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
