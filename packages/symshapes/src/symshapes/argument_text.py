"""Arguments of an FX node as text that tells apart what is not the same: of programs and graphs that are found again by it.

Flows in: an argument, the nodes' numbers, and how what holds no others is written. Flows out: its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

_SEQUENCES: dict[type, str] = {
    tuple: "tuple",
    torch.Size: "Size",
    list: "list",
    fx.immutable_collections.immutable_list: "list",
}
_MAPPINGS = (dict, fx.immutable_collections.immutable_dict)


def argument_text(value: Any, numbers: Mapping[fx.Node, int], leaf: Callable[[Any], str]) -> str:
    """The text of an argument.

    Args:
        numbers: of nodes, which are written by them.
        leaf: writes all else that is no tuple, list, dict or slice, those of classes of their own among it; or raises.
    """
    kind = type(value)
    if kind is fx.Node:
        return f"%{numbers[value]}"
    if kind in _SEQUENCES:
        return f"{_SEQUENCES[kind]}({', '.join([argument_text(item, numbers, leaf) for item in value])})"
    if kind in _MAPPINGS:
        items = [f"{argument_text(k, numbers, leaf)}: {argument_text(v, numbers, leaf)}" for k, v in value.items()]
        return "{" + ", ".join(items) + "}"
    if kind is slice:
        return f"slice{argument_text((value.start, value.stop, value.step), numbers, leaf)}"
    return leaf(value)
