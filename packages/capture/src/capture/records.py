"""Values by the thousand: frozen dataclasses with slots, which C makes, hashes and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from typing import Any, TypeVar, dataclass_transform

from capture._native import Record, lay_out
from symshapes import dataclass, fields_of

__all__ = ["SAME", "Record", "record"]

Made = TypeVar("Made")

#: Of a field that counts by identity: whatever the object says of equality, and whether it has a hash.
SAME: Mapping[str, Any] = {"same": True}


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(field,))
def record(*, eq: bool = True) -> Callable[[type[Made]], type[Made]]:
    """A subclass of ``Record`` as such a dataclass; without ``eq`` each is equal to itself alone."""

    def decorate(cls: type[Made]) -> type[Made]:
        made: Any = dataclass(init=False, eq=False, frozen=True, slots=True)(cls)
        laid_out = [
            (
                each.name,
                2 if not (eq and each.compare) else 1 if "same" in each.metadata else 0,
                () if each.default is MISSING else (each.default,),
            )
            for each in fields_of(made).values()
        ]
        lay_out(made, tuple(laid_out))
        found: type[Made] = made
        return found

    return decorate
