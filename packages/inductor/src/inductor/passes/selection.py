"""Which passes a compile applies. Flows in: the names that are switched off. Flows out: the others, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from inductor.passes.bodies import BodyPass
from inductor.passes.body_rows import BODY_PASSES
from inductor.passes.graph_rows import GRAPH_PASSES
from inductor.passes.graphs import GraphPass
from symshapes import dataclass


@dataclass(frozen=True)
class Selection:
    """The passes of one compile."""

    graph: tuple[GraphPass, ...]
    body: tuple[BodyPass, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return (*(one.name for one in self.graph), *(one.name for one in self.body))

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What the passes are made of."""
        made: list[Callable[..., Any]] = []
        passes: tuple[GraphPass | BodyPass, ...] = (*self.graph, *self.body)
        for one in passes:
            made += [one.rewrite] if one.when is None else [one.rewrite, one.when]
        return tuple(made)


def select(disabled: Collection[str] = ()) -> Selection:
    """All passes but the `disabled`, by name.

    Raises:
        ValueError: there is no pass of that name, or there are two; the message names it.
    """
    names = Selection(tuple(GRAPH_PASSES), tuple(BODY_PASSES)).names
    for name in disabled:
        if name not in names:
            raise ValueError(f"there is no pass {name!r} to disable; the passes are {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"two passes are named {next(name for name in names if names.count(name) > 1)!r}")
    return Selection(
        tuple(one for one in GRAPH_PASSES if one.name not in disabled),
        tuple(one for one in BODY_PASSES if one.name not in disabled),
    )
