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
from inductor.replay.refusals import devices_of, refusal
from inductor.replay.runs import Recorder, Replayed
from inductor.traits import TraitsOf

_log = logging.getLogger("inductor")


def replayed(
    compiled: Any, graph: fx.Graph, example_inputs: Sequence[Any], *, traits: TraitsOf = traits_of
) -> Callable[[list[Any]], Sequence[Any]]:
    """What records a compiled graph's launches at its second call, and replays them from then on.

    Args:
        compiled: the `CompiledGraph` of `graph`.
        example_inputs: what it was compiled for.
        traits: what is true of each device.

    Returns:
        A callable like `compiled`, whose results are new memory at each call; `compiled` itself where launches can't be recorded,
        which is told in the log "inductor".
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
    return Replayed(compiled, pkgutil.resolve_name(name)(device), compiled.settle, example_inputs)


__all__ = ["Recorder", "Replayed", "replayed"]
