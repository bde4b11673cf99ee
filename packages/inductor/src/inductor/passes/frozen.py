"""What `Options.freezing` does to a graph, in order. In: a module of a graph that holds tensors. Out: another one, over new constants."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import torch
from torch import fx

from inductor.passes.affine import fold_affine
from inductor.passes.freezing import Constants, fold_constants
from inductor.passes.graphs import copied
from symshapes import LazyGraphModule


def freeze(module: fx.GraphModule) -> tuple[fx.GraphModule, Counter[str]]:
    """The module with what follows from its tensors alone computed, and how often each pass did something.

    The module given, and its tensors, stay as they are; tensors that did not change are shared.
    """
    graph = copied(module.graph)
    held: dict[str, Any] = {
        str(node.target): functools.reduce(getattr, str(node.target).split("."), module)
        for node in graph.find_nodes(op="get_attr")
    }
    tensors = {name: value for name, value in held.items() if isinstance(value, torch.Tensor)}
    constants = Constants(graph, tensors)
    applied = Counter(
        fold_affine=fold_affine(graph, constants),
        fold_constants=fold_constants(graph, constants),
    )
    read = {str(node.target) for node in graph.find_nodes(op="get_attr")}
    kept = {name: value for name, value in {**held, **tensors}.items() if name in read}
    return LazyGraphModule(kept, graph, "Frozen"), applied
