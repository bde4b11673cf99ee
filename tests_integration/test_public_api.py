"""The public names of the parts without a golden file of their own, and their signatures. `REWRITE_GOLDEN=1` writes anew."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"


def described(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}"
        for member, found in sorted(vars(value).items()):
            if member in value.__annotations__:
                yield f"    {member}: {value.__annotations__[member]}"
            elif inspect.isfunction(found) and found.__module__ == value.__name__ and not member.startswith("_"):
                yield f"    {member}{inspect.signature(found)}"
    elif inspect.isclass(value):
        yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
        if inspect.isfunction(value.__init__):
            yield f"    __init__{inspect.signature(value.__init__)}"
        for member, found in sorted(vars(value).items()):
            if not member.startswith("_"):
                yield f"    {member}{inspect.signature(found) if inspect.isfunction(found) else ''}"
    else:
        yield f"{name}{inspect.signature(value) if callable(value) else f': {type(value).__name__}'}"


@pytest.mark.parametrize("part", ["capture", "cpu_codegen", "meta"])
def test_public_api(part: str) -> None:
    package = importlib.import_module(part)
    lines = [line for name in sorted(package.__all__) for line in described(name, getattr(package, name))]
    path, text = GOLDEN / f"{part}_api.txt", re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines)) + "\n"
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "the public API changed: if it should, run with REWRITE_GOLDEN=1"
