"""The first capture imports nothing of ours: a fork in the middle of it finds no module half imported."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import torch
import capture

linear = torch.nn.Linear(2, 2)

def program(x, *, scale=2):
    compile("0", "", "eval")
    with torch.no_grad():
        found = [y for y in (linear(x), x + scale)]
    return {"sum": sum(found), "size": len(found)}

before = set(sys.modules)
capture.compile(program, dynamic=True)(torch.ones(2, 2))
new = sorted(name for name in set(sys.modules) - before if name.split(".")[0] in ("capture", "symshapes"))
assert not new, new
"""


def test_the_first_capture_imports_nothing_of_ours() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
