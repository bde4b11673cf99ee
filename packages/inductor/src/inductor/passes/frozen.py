"""What `Options.freezing` does to a graph, in order. In: a module of a graph that holds tensors. Out: another one, over new constants."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from inductor.passes.affine import fold_affine
from inductor.passes.freezing import Constants, fold_constants
from inductor.passes.graphs import copied
from symshapes import LazyGraphModule


def hold(module: fx.GraphModule, tensors: Mapping[int, torch.Tensor]) -> fx.GraphModule:
    """A copy of a module in which these of the graph's inputs, by position, are tensors that it holds."""
    graph = copied(module.graph)
    held = _held(module)
    inputs = graph.find_nodes(op="placeholder")
    for at, tensor in tensors.items():
        node = inputs[at]
        name = f"held_{node.name}"
        with graph.inserting_before(node):
            constant = graph.create_node("get_attr", name, (), {}, name)
        constant.target = constant.name
        constant.meta = dict(node.meta)
        held[constant.name] = tensor.detach()
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
    return LazyGraphModule(held, graph, "Held")


def freeze(module: fx.GraphModule) -> tuple[fx.GraphModule, Counter[str]]:
    """The module with what follows from its tensors alone computed, and how often each pass did something.

    The module given, and its tensors, stay as they are; tensors that did not change are shared.
    """
    graph = copied(module.graph)
    held = _held(module)
    tensors = {name: value for name, value in held.items() if isinstance(value, torch.Tensor)}
    constants = Constants(graph, tensors)
    applied = Counter(
        fold_affine=fold_affine(graph, constants),
        fold_constants=fold_constants(graph, constants),
    )
    read = {str(node.target) for node in graph.find_nodes(op="get_attr")}
    kept = {name: value for name, value in {**held, **tensors}.items() if name in read}
    return LazyGraphModule(kept, graph, "Frozen"), applied


def _held(module: fx.GraphModule) -> dict[str, Any]:
    return {
        str(node.target): functools.reduce(getattr, str(node.target).split("."), module)
        for node in module.graph.find_nodes(op="get_attr")
    }
