"""Programs that call torch's own compiler and its marks, in a process of their own: it changes torch once it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_programs_with_marks_of_torchs_own_compiler() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_programs.py"]
    environment = {**os.environ, "PROGRAMS": "markers"}
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
