"""The traced graphs as modules: with the constants that they use attached."""

from __future__ import annotations

import torch
from torch import fx

from symshapes import LazyGraphModule


def module_of(graph: fx.Graph, constants: dict[str, torch.Tensor], name: str) -> fx.GraphModule:
    """A module that runs `graph`, with those of `constants` attached that it uses."""
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    return LazyGraphModule({key: value for key, value in constants.items() if key in used}, graph, name)
