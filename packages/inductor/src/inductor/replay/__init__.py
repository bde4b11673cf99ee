"""Compiled graphs whose launches are recorded once and replayed by one call of the driver.

Flows in: a compiled graph, and the graph it was compiled from. Flows out: what is called in its place.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from inductor.backends import traits_of
from inductor.replay.places import Reader
from inductor.replay.refusals import devices_of, refusal
from inductor.replay.runs import Recorder, Replayed
from inductor.replay.saved import SavedMemory
from inductor.traits import TraitsOf

_log = logging.getLogger("inductor")


def replayed(
    compiled: Any,
    graph: fx.Graph,
    example_inputs: Sequence[Any],
    *,
    memory: SavedMemory | None = None,
    traits: TraitsOf = traits_of,
) -> Callable[[list[Any]], Sequence[Any] | None]:
    """What records a compiled graph's launches at its second call, and replays them from then on.

    Args:
        compiled: the `CompiledGraph` of `graph`.
        example_inputs: what it was compiled for.
        memory: of a training step, whose forward's results stay where they are for its backward: one for its graphs.
        traits: what is true of each device.

    Returns:
        A callable like `compiled`, whose results are new memory at each call, but for those that a training step's forward keeps for
        its backward; `compiled` itself where launches can't be recorded, which is told in the log "inductor". Where the graph's output
        node names inputs in `meta["apart"]`, and one of those shares memory with another, it does nothing and gives None.
    """
    devices = devices_of(graph)
    recorders = [traits(device).recorder for device in devices]
    if not any(recorders):
        return compiled
    reason = refusal(graph)
    if reason is not None:
        _log.warning("not recorded, each launch is the host's: %s", reason)
        return compiled
    ((device, name),) = zip(devices, recorders, strict=True)
    assert name is not None
    said = graph.output_node().meta
    return Replayed(
        compiled,
        pkgutil.resolve_name(name)(device),
        compiled.settle,
        example_inputs,
        apart=said.get("apart", ()),
        kept=said.get("private", ()) if memory is not None else (),
        saved=said.get("private_inputs", ()) if memory is not None else (),
        memory=memory,
    )


__all__ = ["Reader", "Recorder", "Replayed", "SavedMemory", "replayed"]
