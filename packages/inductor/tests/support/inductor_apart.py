"""Runs programs that compile kernels for a GPU, in processes of their own: Triton binds its library to the interpreter in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def compiled_apart(program: str, tmp_path: Path, expected: list[str]) -> None:
    """What a program that compiles for a GPU prints, run without Triton's interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "INDUCTOR_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[: len(expected)] == expected
