"""What is public stays: a changed name or signature shows here, so that it is deliberate."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from pathlib import Path

import aotgrad

GOLDEN = Path(__file__).parent / "golden"


def described(name: str) -> list[str]:
    value = getattr(aotgrad, name)
    if inspect.isclass(value):
        lines = [f"class {name}({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"]
        if dataclasses.is_dataclass(value):
            lines += [f"    {field.name}: {field.type}" for field in dataclasses.fields(value)]
        lines += [
            f"    {attribute}"
            for attribute, member in sorted(vars(value).items())
            if not attribute.startswith("_") and isinstance(member, property)
        ]
        return lines
    if inspect.isfunction(value):
        return [f"{name}{inspect.signature(value)}"]
    return [f"{name}: {type(value).__name__}"]


def golden(name: str, text: str) -> None:
    """Compare with tests/golden/<name>; REWRITE_GOLDEN=1 writes it anew."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert text + "\n" == path.read_text()


def test_public_api() -> None:
    lines = [line for name in sorted(aotgrad.__all__) for line in described(name)]
    golden("public_api.txt", re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines)))
