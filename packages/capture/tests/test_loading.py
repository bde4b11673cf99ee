"""The first capture imports nothing of ours but what few programs need; a fork in the middle of it finds no module half imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import capture

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


FAMILIES = """
import sys
import numpy
import torch
import capture

def of(name):
    return [each for each in sys.modules if each.startswith(name)]

assert capture.compile(lambda x: x * 2 + 1)(torch.ones(2)).tolist() == [3, 3]
assert not of("capture.arrays") and not of("symshapes.rules.convolution"), of("capture.arrays")
found = capture.compile(EXPRESSION, fullgraph=True)(torch.ones(2), numpy.ones(2))
assert found.tolist() == [3, 3], found
assert of("capture.arrays")
"""


@pytest.mark.parametrize(
    "expression",
    [
        "lambda x, a: x + torch.from_numpy(a * 2).float()",
        "lambda x, a: (x.numpy() + 2)",
        "lambda x, a: x + numpy.float32(2)",
        "lambda x, a: x + (2 if numpy.isscalar(3) else 0)",
        "lambda x, a: x + int(numpy.add(1, 1))",
    ],
)
def test_families_are_there_for_who_has_something_of_theirs(expression: str) -> None:
    program = FAMILIES.replace("EXPRESSION", expression)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_class_that_its_metaclass_is_making_has_no_bases_yet() -> None:
    class Made(type):
        def mro(cls) -> list[type]:
            return capture.compile(lambda: [*type.mro(cls), cls][:-1])()

    made = Made("made", (int,), {})
    assert made.__mro__ == (made, int, object)
