"""Guards merged by what they read: a tree of sources, each read once, with the facts to check at each.

`build_tree` drops duplicates; `guard_program` makes the native program of it; `str` shows the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from capture._native import address
from capture.bytecode.assemble import const_key
from capture.guards.kinds import Guard, GuardKind
from capture.sources import Builtin, Const, Global, Namespace, Source
from symshapes import dataclass

# Cheap and telling facts first: they spare the others, and make it safe to look further.
_ORDER = {
    kind: place
    for place, kind in enumerate(
        (
            GuardKind.TYPE, GuardKind.ID, GuardKind.BOUND, GuardKind.EQUALS, GuardKind.TENSOR, GuardKind.LEN, GuardKind.DICT_KEYS,
            GuardKind.HAS_KEY, GuardKind.NO_KEY, GuardKind.NO_KEYS, GuardKind.EMPTY_AT, GuardKind.HAS_ATTR,
            GuardKind.NO_ATTR,
            GuardKind.NO_CLASS_ENTRY, GuardKind.READABLE, GuardKind.EMPTY_CELL, GuardKind.CALLABLE,
            GuardKind.GRAD_MODE, GuardKind.GLOBAL_STATE, GuardKind.ANSWER, GuardKind.SAME_OBJECT, GuardKind.DISTINCT, GuardKind.SHAPE,
        )
    )
}  # fmt: skip

# These need several values, so they wait until all are read.
RELATIONS = frozenset({GuardKind.SAME_OBJECT, GuardKind.DISTINCT, GuardKind.SHAPE})


#: Facts that make a value live on: which object it is stays.
LASTING = frozenset({GuardKind.ID, GuardKind.BOUND})


def begins_lasting(source: Source) -> bool:
    """Whether what is read here lives on whatever a call brings: a constant, or the frame's globals."""
    return isinstance(source, (Const, Namespace, Global, Builtin))


@dataclass(slots=True)
class GuardNode:
    """A source, the facts about its value, and the sources read from it."""

    source: Source
    guards: list[Guard] = field(default_factory=list)
    children: dict[Source, GuardNode] = field(default_factory=dict)

    def nodes(self) -> Iterator[GuardNode]:
        """It and all beneath, parents before children."""
        found: list[GuardNode] = []
        self.gather(found)
        return iter(found)

    def gather(self, into: list[GuardNode]) -> None:
        """Add these to a list."""
        todo = [self]
        while todo:
            node = todo.pop()
            into.append(node)
            if node.children:
                todo.extend(reversed(node.children.values()))


@dataclass(slots=True)
class GuardTree:
    """`roots` by source, `state` guards on no source at all, `relations` between several."""

    roots: dict[Source, GuardNode] = field(default_factory=dict)
    state: list[Guard] = field(default_factory=list)
    relations: list[Guard] = field(default_factory=list)
    keyed: bool = False
    """Whether a source is read by a key that is an object of the program's: known once a program was made of it."""
    readings: list[Guard] = field(default_factory=list, repr=False)
    """What such a program tells where a source cannot be read."""
    _made: dict[Source, GuardNode] = field(default_factory=dict, repr=False)

    def node(self, source: Source) -> GuardNode:
        """The node of `source`, made with its parents if need be."""
        made = self._made
        found = made.get(source)
        if found is None:
            parent = source.parent
            level = self.roots if parent is None else (made.get(parent) or self.node(parent)).children
            found = made[source] = level[source] = GuardNode(source)
        return found

    def nodes(self) -> Iterator[GuardNode]:
        """All nodes, parents before children."""
        for root in self.roots.values():
            yield from root.nodes()

    @property
    def guards(self) -> list[Guard]:
        """All guards in the order in which they are checked."""
        return [*self.state, *(g for node in self.nodes() for g in node.guards), *self.relations]

    def __str__(self) -> str:
        lines = [str(guard) for guard in self.state]
        depth = {address(node): 0 for node in self.roots.values()}
        for node in self.nodes():
            indent = "  " * depth[address(node)]
            lines.append(f"{indent}{node.source.name}")
            lines += [f"{indent}  | {guard}" for guard in node.guards]
            depth.update((address(child), depth[address(node)] + 1) for child in node.children.values())
        return "\n".join(lines + [str(guard) for guard in self.relations])


def build_tree(guards: Iterable[Guard]) -> GuardTree:
    """Merge `guards`: each source once, each fact once, cheap facts before dear ones."""
    tree = GuardTree()
    made = tree._made
    several: list[GuardNode] = []
    others: list[Guard] = []
    for guard in guards:
        if guard.kind in RELATIONS:
            others.append(guard)
            for each in related_sources(guard):
                tree.node(each)
            continue
        if guard.source is None:
            others.append(guard)
            continue
        node = made.get(guard.source) or tree.node(guard.source)
        if len(node.guards) == 1:
            several.append(node)
        node.guards.append(guard)
    for node in several:
        if len({guard.kind for guard in node.guards}) < len(node.guards):
            node.guards = _merged(node.guards)
        node.guards.sort(key=_place)
    for guard in _merged(others):
        (tree.relations if guard.kind in RELATIONS else tree.state).append(guard)
    tree.relations.sort(key=_place)
    return tree


def _merged(guards: list[Guard]) -> list[Guard]:
    """Each fact once, of guards on one source, or on none or several."""
    found: dict[Any, Guard] = {}
    for guard in guards:
        found.setdefault((guard.source, guard.kind, _key(guard.kind, guard.expected)), guard)
    return list(found.values())


def _place(guard: Guard) -> int:
    return _ORDER[guard.kind]


def related_sources(guard: Guard) -> tuple[Source, ...]:
    """The sources that a relation compares, in order."""
    if guard.kind is GuardKind.SHAPE:
        return tuple(size.source for size in guard.expected.inputs)
    first = () if guard.source is None else (guard.source,)
    if guard.kind is GuardKind.SAME_OBJECT:
        return (*first, guard.expected)
    return (*first, *guard.expected)


#: Kinds of what is equal by its type and bits, and of what says itself what it is equal to; other guards expect this very object.
_CONSTANTS = frozenset(
    {GuardKind.EQUALS, GuardKind.LEN, GuardKind.HAS_ATTR, GuardKind.NO_ATTR, GuardKind.NO_CLASS_ENTRY}
)
_VALUES = frozenset(
    {GuardKind.TENSOR, GuardKind.GLOBAL_STATE, GuardKind.SAME_OBJECT, GuardKind.GRAD_MODE, GuardKind.ANSWER}
)


def _key(kind: GuardKind, expected: Any) -> Any:
    """Equal for guards of a kind that state the same of a source."""
    if kind in _CONSTANTS:
        return const_key(expected)
    return expected if kind in _VALUES else address(expected)
