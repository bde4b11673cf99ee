"""What is public stays: a changed name, signature, field or member of any package shows here, so that it is deliberate."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sympy

PACKAGES = sorted(path.parent.name for path in Path(__file__).parents[1].glob("packages/*/pyproject.toml"))


def signature(value: Any) -> str:
    """As written: annotations that are no text print differently from one Python to the next, and are left out."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"

    def written(annotation: Any) -> Any:
        return annotation if isinstance(annotation, str) else inspect.Signature.empty

    parameters = [each.replace(annotation=written(each.annotation)) for each in found.parameters.values()]
    shown = str(found.replace(parameters=parameters, return_annotation=written(found.return_annotation)))
    # An annotation that is text shows in quotes; a default that is a function shows with its address.
    return re.sub(r" at 0x[0-9a-f]+", "", shown.replace("'", ""))


def of_class(name: str, value: type, package: str) -> Iterator[str]:
    """The class with its bases, its fields or constructor, and what it has of its own."""
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    if not value.__module__.startswith(package) or issubclass(value, sympy.Basic):  # sympy fills in members of its own
        return
    if issubclass(value, enum.Enum):
        yield from (f"    {member}" for member in value.__members__)
        return
    fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            given = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            yield f"    {field.name}: {field.type}{' = ...' if given else ''}"
    elif inspect.isfunction(vars(value).get("__init__")) and not getattr(value, "_is_protocol", False):
        yield f"    __init__{signature(value.__init__)}"  # type: ignore[misc]
    for member, raw in sorted(vars(value).items()):
        if member.startswith("_") or member in fields:
            continue
        found = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        kind = f"{type(raw).__name__} " if isinstance(raw, (classmethod, staticmethod, property)) else ""
        yield f"    {kind}{member}{signature(found) if inspect.isfunction(found) else ''}"


def described(name: str, value: Any, package: str) -> Iterator[str]:
    """Lines that say what `name` promises."""
    if isinstance(value, ModuleType):
        yield f"module {name}"
        annotations = vars(value).get("__annotations__", {})
        for member, found in sorted(vars(value).items()):
            if member in annotations:
                yield f"    {member}: {annotations[member]}"
            elif inspect.isfunction(found) and found.__module__ == value.__name__ and not member.startswith("_"):
                yield f"    {member}{signature(found)}"
    elif inspect.isclass(value):
        yield from of_class(name, value, package)
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_api(package: str, golden: Callable[[str, str], None]) -> None:
    module = importlib.import_module(package)
    names = sorted(module.__all__)
    assert len(names) == len(set(names)) and all(hasattr(module, name) for name in names)
    lines = [line for name in names for line in described(name, getattr(module, name), package)]
    golden(f"{package}_api", "\n".join(lines))
