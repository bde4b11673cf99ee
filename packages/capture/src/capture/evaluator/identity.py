"""Which inputs are one object, and which are not: facts of their own, since a capture is not tied to one object each.

In: the inputs that were looked at, and what the frame changed. Out: guards that what is the same, or apart, stays so.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from capture.errors import Unsupported
from capture.guards import LASTING, GuardKind, begins_lasting
from capture.sources import Attr, Const, Item, Source
from capture.variables.base import Variable, VarKey
from capture.variables.constants import Constant
from capture.variables.functions import Cell
from capture.variables.mappings import Dict
from capture.variables.modules import Module
from capture.variables.objects import Object
from capture.variables.tensors import Tensor

from .facts import Facts


@dataclass(frozen=True)
class Store:
    """An object that holds contents of the input ``owner``; only those of one ``kind`` may be the same."""

    owner: Variable
    source: Source
    real: object
    kind: object


class Identity(Facts):
    """Guards on which inputs are the same object."""

    def distinct(self, first: Variable, *others: Variable) -> None:
        """Inputs that are different objects stay so, where no guard on their identity says it."""
        inputs = [v for v in (first, *others) if v.source is not None and not isinstance(v, Constant)]
        if len(inputs) > 1 and not all(map(self.identity_fixed, inputs)):
            self.guard_apart([v.source for v in inputs if v.source is not None])

    def guard_apart(self, sources: list[Source]) -> None:
        if len(sources) > 1:
            self.add(sources[0], GuardKind.DISTINCT, tuple(sources[1:]))

    def key(self, variable: Variable) -> VarKey:
        """The key of an object that is hashed and compared as such: two of them stay two."""
        if variable.source is not None:
            self.hashed[id(variable)] = variable
        return VarKey(variable)

    def identity_fixed(self, variable: Variable) -> bool:
        return isinstance(variable, Constant) or self.is_fixed(variable.source)

    def is_fixed(self, source: Source | None) -> bool:
        """Whether a source always reads one object. A function keeps its cells."""
        if isinstance(source, Item) and isinstance(source.base, Attr) and source.base.attr == "__closure__":
            source = source.base.base
        return isinstance(source, Const) or (source, GuardKind.ID) in self.table

    def is_same_cell(self, cell: Cell, source: Source) -> bool:
        """Whether another place holds a known cell whatever a call brings."""
        return cell.source == source or (self.is_fixed(cell.source) and self.is_fixed(source))

    def hangs_from_bound(self, source: Source) -> bool:
        """Whether a source is read from a module that may be any one of its equals."""
        return any((each, GuardKind.BOUND) in self.table for each in source.path)

    def lives_on(self, source: Source) -> bool:
        """Whether a source hangs from an object of fixed identity, or from a bound module."""
        return any(begins_lasting(each) or any((each, kind) in self.table for kind in LASTING) for each in source.path)

    def guard_hashed(self) -> None:
        if len(self.hashed) > 1:
            self.distinct(*self.hashed.values())

    def guard_bound_apart(self) -> None:
        """Modules, and what they own of the graph's inputs, stay different objects: equal ones may share them otherwise."""
        modules = [v.source for _, v in self.memo.values() if isinstance(v, Module) and v.source is not None]
        if any((source, GuardKind.BOUND) in self.table for source in modules):
            owned = [source for source in self.graph.sources if self.lives_on(source)]
            self.guard_apart([s for s in dict.fromkeys([*modules, *owned]) if not isinstance(s, Const)])

    def guard_aliases(self, tensors_changed: bool) -> None:
        """What the frame changed must not turn out to be what another input keeps its contents in."""
        inputs = [v for _, v in self.memo.values() if v.source is not None]
        tensors = [v for v in inputs if isinstance(v, Tensor) and not self.identity_fixed(v)]
        if not tensors_changed:
            tensors = [v for v in tensors if v.cls is torch.Tensor]
        if len(tensors) > 1:
            self.distinct(*tensors)
        if any(v.source is not None for v in self.changed.values()):
            stores = [store for value, v in self.memo.values() for store in self.stores(value, v)]
            for kind in dict.fromkeys(store.kind for store in stores if self.is_changed(store)):
                self.guard_stores_apart([store for store in stores if store.kind == kind])

    def is_changed(self, store: Store) -> bool:
        return id(store.owner) in self.changed

    def stores(self, value: Any, variable: Variable) -> Iterator[Store]:
        """Where an input keeps what a frame may change: its dictionary, its slots, its items."""
        source = variable.source
        if source is None or (isinstance(source.root, Const) and id(source.root.value) in self.private):
            return
        if not isinstance(variable, Object):
            kind = dict if isinstance(variable, Dict) else (type(variable), variable.python_type())
            yield Store(variable, source, value, kind)
            return
        if variable.has_dict():
            yield Store(variable, Attr(source, "__dict__"), variable.instance_dict(), dict)
        if variable.payload is not None:
            kind = dict if isinstance(variable.payload, Dict) else (type(variable.payload), variable.cls)
            yield Store(variable.payload, source, value, kind)
        if any("__slots__" in cls.__dict__ for cls in variable.cls.__mro__):
            yield Store(variable, source, value, variable.cls)

    def guard_stores_apart(self, stores: list[Store]) -> None:
        """Those of one kind, some of which were changed. A change is not followed into another view of the same."""
        first: dict[int, Store] = {}
        for store in stores:
            other = first.setdefault(id(store.real), store)
            if other is store:
                continue
            if self.is_changed(store) or self.is_changed(other):
                raise Unsupported(f"{store.source.name} and {other.source.name} are one object, which changes")
            self.add(store.source, GuardKind.SAME_OBJECT, other.source)
        if any(store.owner.python_type() is types.MappingProxyType for store in stores):
            raise Unsupported("a view of a dictionary, while a dictionary changes")
        sources = list(dict.fromkeys(store.source for store in first.values()))
        if not all(map(self.is_fixed, sources)):
            self.guard_apart(sources)
