"""Each public name of a package has a docstring; an override has that of what it overrides."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

PACKAGES = ["symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta"]


def modules(package: str) -> Iterator[types.ModuleType]:
    """The package and its public modules, without those that need what is not installed here."""
    top = importlib.import_module(package)
    yield top
    for found in pkgutil.walk_packages(top.__path__, f"{package}."):
        if any(part.startswith("_") for part in found.name.split(".")):
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] == package:
                raise


def has_text(cls: type) -> bool:
    """Whether a class's docstring was written; dataclasses and named tuples are given one."""
    text = cls.__doc__
    return bool(text) and not text.startswith(f"{cls.__name__}(")


def is_described(member: Any) -> bool:
    """Whether it is a kind of member that can have a docstring."""
    return isinstance(member, types.FunctionType | property | classmethod | staticmethod | cached_property)


def declared(package: str) -> set[str]:
    """Names of the methods that the package's Protocols describe: the classes that have them do not say it again."""
    protocols = [v for m in modules(package) for v in vars(m).values() if getattr(v, "_is_protocol", False)]
    return {name for cls in protocols for name, member in vars(cls).items() if is_described(member) and member.__doc__}


def undocumented_members(cls: type, known: set[str]) -> Iterator[str]:
    """Public methods and properties that neither the class, nor one that it is made from, nor a Protocol describes."""
    for name, member in vars(cls).items():
        if name.startswith("_") or name in known or not is_described(member):
            continue
        if not any(getattr(vars(base).get(name), "__doc__", None) for base in cls.__mro__):
            yield f"{cls.__module__}.{cls.__qualname__}.{name}"


def undocumented(module: types.ModuleType, known: set[str]) -> Iterator[str]:
    """Full names of what a module defines without a docstring."""
    if not module.__doc__:
        yield module.__name__
    for name, value in vars(module).items():
        own: Any = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
        if name.startswith("_") or getattr(own, "__module__", None) != module.__name__:
            continue
        if isinstance(own, type):
            if not has_text(own):
                yield f"{module.__name__}.{name}"
            yield from undocumented_members(own, known)
        elif isinstance(own, types.FunctionType) and not own.__doc__:
            yield f"{module.__name__}.{name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_docstrings(package: str) -> None:
    known = declared(package)
    assert [name for module in modules(package) for name in undocumented(module, known)] == []


def test_what_has_none_is_found() -> None:
    made = types.ModuleType("made", "A module.")
    text = '''
class Base:
    """A class."""
    def told(self): "Told."
    def untold(self): ...
class Derived(Base):
    def told(self): ...
def function(): ...
'''
    exec(text, vars(made) | {"__name__": "made"}, vars(made))
    assert [*undocumented(made, set())] == ["made.Base.untold", "made.Derived", "made.function"]
    assert [*undocumented(made, {"untold"})] == ["made.Derived", "made.function"]
