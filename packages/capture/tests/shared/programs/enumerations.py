"""Members of enumerations from outside whose classes say how their attributes are read."""

from __future__ import annotations

import enum

from .registry import program


class _Falling(enum.Enum):
    A = 1

    def __getattr__(self, name):
        if name.startswith(("no", "_")):
            raise AttributeError(name)
        return name, len(name)


@program
def members_that_fall_back(x):
    found = _Falling.A.other, hasattr(_Falling.A, "more"), hasattr(_Falling.A, "none"), getattr(_Falling.A, "no", 3)
    return found, _Falling.A.name, x * _Falling.A.value


class _Hiding(enum.Enum):
    A = 1

    def __getattribute__(self, name):
        return 5 if name == "value" else super().__getattribute__(name)


@program
def break_at_members_that_hide_attributes(x):
    return x * _Hiding.A.value, _Hiding.A.name, hasattr(_Hiding.A, "other")
