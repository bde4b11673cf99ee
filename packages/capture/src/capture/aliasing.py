"""Graphs that change inputs in place, when inputs share memory: such a call runs the captured graph eagerly.

Compilers take inputs for separate. That two argument tensors have memory in common shows only at the call, so it is looked at then;
tensors that modules own are taken for separate from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from symshapes import build_python, share_memory, shares_memory_lines

from . import _native
from .sources import Source, is_module_owned


def separated(
    compiled: Callable[..., Any], module: fx.GraphModule, sources: Sequence[Source], changed: Sequence[bool]
) -> Callable[..., Any]:
    """``compiled``, with the graph run as it is in its place for calls in which a changed tensor shares memory with another.

    What a backend compiled may look at that itself, and says so by an attribute ``separates``.
    """
    if getattr(compiled, "separates", False):
        return compiled
    tensors = [isinstance(node.meta["val"], torch.Tensor) for node in module.graph.find_nodes(op="placeholder")]
    looked_at = [i for i, source in enumerate(sources) if tensors[i] and not is_module_owned(source)]
    if len(looked_at) < 2 or not any(changed[i] for i in looked_at):
        return compiled
    written = [place for place, i in enumerate(looked_at) if changed[i]]
    line, head = shares_memory_lines([f"inputs[{i}]" for i in looked_at], written)
    lines = [
        "def run(*inputs):",
        f"    {line}",
        f"    {head}",
        "        return eager(*inputs)",
        "    return compiled(*inputs)",
    ]
    eager = _native.DisabledCallable(lambda *inputs: module.forward(*inputs))
    names = {"eager": eager, "compiled": compiled, "share_memory": share_memory}
    run: Callable[..., Any] = build_python("\n".join(lines) + "\n", names, entry="run", title="shared memory")
    return run
