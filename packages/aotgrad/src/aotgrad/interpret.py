"""Running a captured graph, node by node, so that the tracer knows the user's line of every op.

In: an `fx.GraphModule` of torch calls (modules and attributes allowed) and its inputs. Out: what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from aotgrad.whole import WHOLE

Enter = Callable[[fx.Node], None]


def interpret(module: fx.GraphModule, inputs: Sequence[Any], enter: Enter, made: dict[int, fx.Node]) -> Any:
    """Run the graph of `module`; `enter` hears of each call before it runs. `made`: gets the node that first has a value, by `id`."""
    env: dict[fx.Node, Any] = {}
    remaining = iter(inputs)

    def value_of(node: fx.Node) -> Any:
        return env[node]

    for node in module.graph.nodes:
        kind = node.op
        if kind == "placeholder":
            env[node] = next(remaining) if not node.args else next(remaining, node.args[0])
            continue
        if kind == "output":
            return map_arg(node.args[0], value_of)
        if kind == "get_attr":
            env[node] = _attribute(module, node.target)
            continue
        enter(node)
        args = map_arg(node.args, value_of)
        kwargs = map_arg(node.kwargs, value_of)
        if kind == "call_function":
            env[node] = WHOLE.get(node.target, node.target)(*args, **kwargs)
        elif kind == "call_method":
            env[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        else:
            env[node] = module.get_submodule(node.target)(*args, **kwargs)
        made.setdefault(id(env[node]), node)
    return None


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def attached_tensors(module: Any) -> list[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Tensors that a module holds (parameters, buffers, plain attributes of the root): owner, name, tensor.

    A tensor that is held twice comes once for each place.
    """
    if not isinstance(module, torch.nn.Module):
        return []
    found: list[tuple[torch.nn.Module, str, torch.Tensor]] = []
    for owner in module.modules():
        for table in (owner._parameters, owner._buffers, vars(owner)):
            for name, tensor in table.items():
                if isinstance(tensor, torch.Tensor):
                    found.append((owner, name, tensor))
    return found


@contextmanager
def swapped(places: Sequence[tuple[torch.nn.Module, str, torch.Tensor]], values: Sequence[Any]) -> Iterator[None]:
    """Let modules hold `values` where they hold the tensors of `places`."""
    tables: list[dict[str, Any]] = []
    for owner, name, tensor in places:
        held: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers, vars(owner))
        for table in held:
            if table.get(name) is tensor:
                tables.append(table)
                break
    for table, (_, name, _tensor), value in zip(tables, places, values, strict=True):
        table[name] = value
    try:
        yield
    finally:
        for table, (_, name, tensor) in zip(tables, places, strict=True):
            table[name] = tensor
