"""What is known of an object, for as long as it lives; of this one, not of all that are equal to it.

Code objects of equal content compare equal: two compiled modules of one class are entered through equal ones.
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

from capture._native import address

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdentityMap(Generic[Key, Value]):
    """A map from objects by identity. An entry goes with its object, so a value must not hold that."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Key], Value]] = {}

    def get(self, key: Key) -> Value | None:
        """What is kept for an object; None if nothing is."""
        # The reference tells whether it still is that object: another may have its address by now.
        entry = self._entries.get(address(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def __setitem__(self, key: Key, value: Value) -> None:
        place, entries = address(key), self._entries

        def forget(gone: weakref.ref[Key]) -> None:
            entry = entries.get(place)
            if entry is not None and entry[0] is gone:
                del entries[place]

        entries[place] = (weakref.ref(key, forget), value)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
