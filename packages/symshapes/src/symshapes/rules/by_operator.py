"""`ByOperator`: a table by operator, whose entries for ATen's operators are made by name.

Torch makes the object of an operator when it is asked for, some ten microseconds each: what is imported names a thousand, and a program has
a dozen. A name that this release of torch lacks is never looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from typing import Any, TypeVar

import torch

from symshapes import _torch
from symshapes.lazy import import_whole

Entry = TypeVar("Entry")


def aten(name: str) -> list[Any]:
    """The overload called `name` ("add.Tensor"; no dot means default) as a list, empty if torch lacks it."""
    packet_name, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    found = getattr(packet, overload or "default", None) if packet is not None else None
    return [] if found is None else [found]


def _name_in_aten(op: Any) -> str | None:
    if not isinstance(op, _torch.OpOverload) or op.namespace != "aten":
        return None
    name: str = op.name()
    return name.removeprefix("aten::")


class ByOperator(MutableMapping[Any, Entry]):
    """By `OpOverload`. What is set for an operator goes before what is set for its name."""

    def __init__(self) -> None:
        self.given: dict[Any, Entry] = {}
        self.named: dict[str, Entry] = {}
        """By the name of an overload of ATen's, as `aten` takes it."""
        self.further: list[str] = []
        """Modules that have entries for names which those that are imported lack: imported in this order while one is looked for."""

    def by_name(self, op: Any, beside: Any = None) -> Entry | None:
        """The entry made for the name of an operator, whatever is set for the operator itself.

        One that has no entry unless it stands with that of the operator `beside` is not looked for further where this one's is there.
        """
        name = _name_in_aten(op)
        if name is None:
            return None
        while True:
            waiting = bool(self.further)  # asked first: another thread may import the last of them meanwhile
            found = self.named.get(name)
            if found is not None or not waiting or _name_in_aten(beside) in self.named:
                return found
            self._import_further()

    def _import_further(self) -> None:
        for module in self.further[:1]:
            import_whole(module)  # another thread that looks for one waits here until all of the module is there
            with suppress(ValueError):  # which that one may have taken out
                self.further.remove(module)

    def __getitem__(self, op: Any) -> Entry:
        found = self.given.get(op)
        if found is None and (found := self.by_name(op)) is None:
            raise KeyError(op)
        return found

    def __setitem__(self, op: Any, entry: Entry) -> None:
        self.given[op] = entry

    def __delitem__(self, op: Any) -> None:
        del self.given[op]

    def __iter__(self) -> Iterator[Any]:
        while self.further:
            self._import_further()
        yield from self.given
        yield from (op for name in self.named for op in aten(name) if op not in self.given)

    def __len__(self) -> int:
        return sum(1 for _ in self)
