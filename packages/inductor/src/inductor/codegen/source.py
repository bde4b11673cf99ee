"""The text of a wrapper's module, and the body of its `call` out of that text.

Flows in: the lines of `call` and what they refer to. Flows out: `WrapperSource`, or a `StraightLine` for another function.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from inductor.codegen.guards import without_head
from symshapes import StraightLine, dataclass, definer_of


@dataclass(frozen=True)
class WrapperSource:
    """Generated text. `constants` and `objects` are to be in its namespace, and the kernels by name."""

    text: str
    constants: dict[str, tuple[str, Any]]
    """Tensors that are part of the graph, by variable: buffer name and tensor."""
    objects: dict[str, Any]
    """Python objects that no text stands for: a graph with any is not cached on disk."""
    kernels: tuple[str, ...]


ITSELF = "_itself = __import__('weakref').ref(call)\n\n\n"
"""Where `call` calls itself, on another device: by no name that would keep it, and all that it refers to, alive."""


def module_text(kernels: int, bound: Mapping[str, str], lines: Sequence[str], inputs: Sequence[str]) -> str:
    """The module, which `straight_line` reads again.

    Args:
        kernels: how many different ones there are.
        bound: names at the module's level, with the expressions that they stand for.
        lines: the body of `call`.
        inputs: the inputs' metadata as text, for the benchmark.
    """
    names = "\n".join(f"{name} = {value}" for name, value in bound.items())
    body = "\n".join("    " + line for line in lines)
    listed = ",\n".join("            " + each for each in inputs)
    return (
        f'"""Generated: {kernels} kernels. Runs a benchmark of itself: python <this file>."""\n\n'
        + "".join(f"import {module}\n" for module in _definers(bound.values()))
        + "import torch\n\n"
        + names
        + ("\n" if names else "")
        + f"\n\ndef call(args):\n{body}\n\n\n"
        + (ITSELF if any("_itself()" in line for line in lines) else "")
        + 'if __name__ == "__main__":\n'
        + "    from inductor.benchmark import benchmark\n\n"
        + f"    benchmark(\n        __file__,\n        [\n{listed}{',' if listed else ''}\n        ],\n    )\n"
    )


OPERATOR = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")
"""How text calls an operator."""


def _definers(values: Iterable[str]) -> list[str]:
    """Modules to import for operators that they define."""
    called = {"::".join(found.groups()) for value in values for found in OPERATOR.finditer(value)}
    return sorted({module for module in map(definer_of, called) if module is not None})


def missing_operators(text: str) -> list[str]:
    """Operators that a wrapper's text calls and that nothing has defined in this process, when what it imports is imported."""
    for module in re.findall(r"^import (\S+)$", text.partition("\n\n\n")[0], re.MULTILINE):
        importlib.import_module(module)
    called = sorted({found.groups() for found in OPERATOR.finditer(text)})
    return [f"{space}::{name}" for space, name in called if not hasattr(getattr(torch.ops, space), name)]


def straight_line(text: str, namespace: Mapping[str, Any]) -> StraightLine:
    """The body of `call` in a wrapper's text, for another function to take in. `namespace`: what the text refers to."""
    head, _, rest = text.partition("\n\n\ndef call(args):\n")
    lines = [line[4:] for line in rest.partition("\n\n\n")[0].split("\n")]
    only_if = without_head(lines)
    inputs: tuple[str, ...] = ()
    if lines[0] != "args.clear()":
        inputs = tuple(name for name in lines.pop(0).removesuffix(" = args").strip("(),").split(", "))
    bound = head.partition("import torch\n")[2].strip()
    return StraightLine(
        inputs,
        tuple(bound.split("\n")) if bound else (),
        tuple(lines[1:-1]),
        lines[-1].removeprefix("return "),
        {"torch": torch, **namespace},
        only_if,
    )
