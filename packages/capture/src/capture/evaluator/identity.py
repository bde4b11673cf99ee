"""Which inputs are one object, and which are not: facts of their own, since a capture is not tied to one object each.

In: the inputs that were looked at, and what the frame changed. Out: guards that what is the same, or apart, stays so.
"""

from __future__ import annotations

from typing import Any

import torch

from capture._native import address
from capture.errors import Unsupported
from capture.graph import GraphBuilder
from capture.guards import GuardKind, begins_lasting
from capture.sources import Applied, Const, Source
from capture.variables.base import Variable
from capture.variables.constants import Constant
from capture.variables.mapping_inputs import InputView, shown_by
from capture.variables.mappings import Dict, VarKey
from capture.variables.modules import Module
from capture.variables.objects import Object
from capture.variables.tensors import Tensor
from symshapes import dataclass

from .builder import Inputs
from .guards import GuardTable
from .side_effects import SideEffects


@dataclass(frozen=True)
class Store:
    """An object that holds contents of the input ``owner``; only those of one ``kind`` may be the same."""

    owner: Variable
    source: Source
    real: object
    kind: object


class ObjectIdentity:
    """Guards on which inputs are the same object."""

    def __init__(self, guards: GuardTable, effects: SideEffects, inputs: Inputs) -> None:
        self._guards = guards
        self._effects = effects
        self._inputs = inputs
        #: Inputs that are keys of sets and dictionaries as the objects that they are.
        self._hashed: dict[int, Variable] = {}
        #: Whether ``id`` of an object is an element or a key of something.
        self.has_ids = False
        #: Counts the program's questions whether literals are one object.
        self.literals_told = 0

    @property
    def hashed(self) -> int:
        """How many inputs are keys of something."""
        return len(self._hashed)

    def key(self, variable: Variable) -> VarKey:
        """The key of an object that is hashed and compared as such: two of them stay two."""
        if variable.source is not None:
            self._hashed[address(variable)] = variable
        return VarKey(variable)

    def distinct(self, first: Variable, *others: Variable) -> None:
        """Inputs that are different objects stay so, where no guard on their identity says it."""
        inputs = [v for v in (first, *others) if v.source is not None and not isinstance(v, Constant)]
        if len(inputs) > 1 and not all(map(self._is_fixed, inputs)):
            self._guards.distinct([v.source for v in inputs if v.source is not None])

    def hangs_from_bound(self, source: Source) -> bool:
        """Whether a source is read from a module that may be any one of its equals."""
        return any(self._guards.holds(each, GuardKind.BOUND) for each in source.path)

    def lives_on(self, source: Source) -> bool:
        """Whether a source hangs from an object of fixed identity, or from a bound module."""
        return self._lives_on(source, {})

    def _lives_on(self, source: Source, known: dict[Source, bool]) -> bool:
        """The same where what is found is kept: of many sources that are read from one."""
        makes_last, way, found = self._guards.makes_last, [], False
        for each in source.path:
            if each in known:
                found = known[each]
                break
            way.append(each)
            if begins_lasting(each) or makes_last(each):
                found = True
                break
        known.update(dict.fromkeys(way, found))
        return found

    def modules(self) -> list[torch.nn.Module]:
        """The real modules among the inputs that were looked at."""
        return [value for value, variable in self._inputs.values() if isinstance(variable, Module)]

    # Once all is evaluated

    def guard_all(self, graph: GraphBuilder) -> None:
        """What ``graph`` and the frame's changes ask of the inputs' identity."""
        self._guard_aliases(graph.changes_inputs())
        if len(self._hashed) > 1:
            self.distinct(*self._hashed.values())
        self._guard_bound_apart(graph.tensor_sources())

    def release(self) -> None:
        """Let go of the program's objects."""
        self._hashed.clear()

    def _is_fixed(self, variable: Variable) -> bool:
        return isinstance(variable, Constant) or self._guards.is_fixed(variable.source)

    def _guard_bound_apart(self, sources: list[Source]) -> None:
        """Modules, and what they own of the graph's inputs, stay different objects: equal ones may share them otherwise."""
        modules = [v.source for _, v in self._inputs.values() if isinstance(v, Module) and v.source is not None]
        if any(self._guards.holds(source, GuardKind.BOUND) for source in modules):
            known: dict[Source, bool] = {}
            owned = [source for source in sources if self._lives_on(source, known)]
            self._guards.distinct([s for s in dict.fromkeys([*modules, *owned]) if not isinstance(s, Const)])

    def _guard_aliases(self, tensors_changed: bool) -> None:
        """What the frame changed must not turn out to be what another input keeps its contents in."""
        inputs = [v for _, v in self._inputs.values() if v.source is not None]
        tensors = [v for v in inputs if isinstance(v, Tensor) and not self._is_fixed(v)]
        if not tensors_changed:
            tensors = [v for v in tensors if v.cls is torch.Tensor]
        if len(tensors) > 1:
            self.distinct(*tensors)
        if self._effects.has_changed_inputs():
            forms: dict[type, tuple[bool, bool]] = {}
            stores: list[Store] = []
            for value, v in self._inputs.values():
                if v.source is not None and not self._guards.is_exempt(v.source):
                    self._add_stores(stores, value, v, v.source, forms)
            for kind in dict.fromkeys(store.kind for store in stores if self._is_changed(store)):
                self._guard_stores_apart([store for store in stores if store.kind == kind])

    def _is_changed(self, store: Store) -> bool:
        return address(store.owner) in self._effects.changed

    def _add_stores(
        self, into: list[Store], value: Any, variable: Variable, source: Source, forms: dict[type, tuple[bool, bool]]
    ) -> None:
        """Add where an input keeps what a frame may change: its dictionary, its slots, its items.

        ``forms`` has of classes met whether their objects have a dictionary, and slots.
        """
        if isinstance(variable, InputView):
            into.append(Store(variable, Applied(source, shown_by, 0), shown_by(value), dict))
            return
        if not isinstance(variable, Object):
            kind = dict if isinstance(variable, Dict) else (type(variable), variable.python_type())
            into.append(Store(variable, source, value, kind))
            return
        form = forms.get(variable.cls)
        if form is None:
            form = variable.has_dict(), any("__slots__" in cls.__dict__ for cls in variable.cls.__mro__)
            forms[variable.cls] = form
        has_dict, has_slots = form
        if has_dict:
            into.append(Store(variable, variable.dict_source(source), variable.instance_dict(), dict))
        if variable.payload is not None:
            kind = dict if isinstance(variable.payload, Dict) else (type(variable.payload), variable.cls)
            into.append(Store(variable.payload, source, value, kind))
        if has_slots:
            into.append(Store(variable, source, value, variable.cls))

    def _guard_stores_apart(self, stores: list[Store]) -> None:
        """Those of one kind, some of which were changed. A change is not followed into another view of the same."""
        first: dict[int, Store] = {}
        for store in stores:
            other = first.setdefault(address(store.real), store)
            if other.owner is store.owner:  # which stands for what wraps it, too
                continue
            if self._is_changed(store) or self._is_changed(other):
                raise Unsupported(f"{store.source.name} and {other.source.name} are one object, which changes")
            self._guards.add(store.source, GuardKind.SAME_OBJECT, other.source)
        sources = list(dict.fromkeys(store.source for store in first.values()))
        if not all(map(self._guards.is_fixed, sources)):
            self._guards.distinct(sources)
