"""The C files call each other in one direction."""

import graphlib
import pathlib
import re

FILES = {f.stem: f.read_text() for f in (pathlib.Path(__file__).parents[2] / "src/capture/_native").glob("*.c")}
DEFINED = re.compile(r"^(?!static\b)[\w ].*\n(\w+)\(", re.MULTILINE)  # the format has a function's name begin its line


def test_no_circle_among_the_c_files():
    home = {name: stem for stem, text in FILES.items() for name in DEFINED.findall(text)}
    used = {stem: {home[name] for name in re.findall(r"\w+", text) if name in home} for stem, text in FILES.items()}
    assert {"run", "cache", "program"} <= used["hook"]
    calls = {stem: others - {stem} for stem, others in used.items()}
    tuple(graphlib.TopologicalSorter(calls).static_order())  # raises CycleError
