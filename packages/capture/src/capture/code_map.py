"""What is known of a code object, for as long as it lives; of this one, not of all that are equal to it.

Code objects of equal content compare equal: two compiled modules of one class are entered through equal ones.
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Generic, TypeVar

Value = TypeVar("Value")


class CodeMap(Generic[Value]):
    """A map from code objects by identity. An entry goes with its code object, so a value must not hold that."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[CodeType], Value]] = {}

    def get(self, code: CodeType) -> Value | None:
        """What is kept for a code object; None if nothing is."""
        # The reference tells whether it still is that object: another may have its address by now.
        entry = self._entries.get(id(code))
        return entry[1] if entry is not None and entry[0]() is code else None

    def __setitem__(self, code: CodeType, value: Value) -> None:
        key, entries = id(code), self._entries

        def forget(gone: weakref.ref[CodeType]) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is gone:
                del entries[key]

        entries[key] = (weakref.ref(code, forget), value)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
