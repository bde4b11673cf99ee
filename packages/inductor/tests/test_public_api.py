"""What is public stays: a changed name or signature shows here, so that it is deliberate."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from pathlib import Path

from inductor_golden import golden

import inductor


def described(name: str) -> list[str]:
    value = getattr(inductor, name)
    if inspect.isclass(value):
        lines = [f"class {name}"]
        if dataclasses.is_dataclass(value):
            lines += [f"    {field.name}: {field.type}" for field in dataclasses.fields(value)]
        elif issubclass(value, enum.Enum):
            lines += [f"    {member}" for member in value.__members__]
        elif "__init__" in vars(value) and not getattr(value, "_is_protocol", False):
            lines.append(f"    __init__{inspect.signature(value.__init__)}")
        for attribute, member in sorted(vars(value).items()):
            if not attribute.startswith("_") and inspect.isfunction(member):
                lines.append(f"    {attribute}{inspect.signature(member)}")
        return lines
    if inspect.isfunction(value):
        return [f"{name}{inspect.signature(value)}"]
    return [f"{name}: {type(value).__name__}"]


def test_public_api() -> None:
    assert sorted(inductor.__all__) == sorted(set(inductor.__all__))
    # Defaults that are functions print with their address.
    text = re.sub(
        r" at 0x[0-9a-f]+", "", "\n".join(line for name in sorted(inductor.__all__) for line in described(name))
    )
    golden(Path(__file__).parent / "golden" / "public_api.txt", text)
