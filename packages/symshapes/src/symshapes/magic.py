"""Python operators of `torch.SymInt`, `SymFloat` and `SymBool` on our nodes.

`import torch` itself installs them (`a + b` calls `a.node.add(b.node)`, found on torch 2.11 and 2.13), and they serve
any node with the right method names, with one exception: `torch.sym_ite` insists on torch's own node class.
"""

from __future__ import annotations

from typing import Any

import torch

from symshapes.node import SymNode

_torch_sym_ite = torch.SymBool.__sym_ite__


def _sym_ite(self: torch.SymBool, then: Any, otherwise: Any) -> Any:
    if isinstance(self.node, SymNode):
        return then if bool(self) else otherwise
    return _torch_sym_ite(self, then, otherwise)  # type: ignore[no-untyped-call]


def install() -> None:
    """Make `torch.sym_ite` choose by a guard where the condition is ours; others' conditions go to torch's method."""
    torch.SymBool.__sym_ite__ = _sym_ite  # type: ignore[method-assign]
