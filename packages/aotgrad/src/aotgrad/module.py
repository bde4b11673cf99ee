"""Graph modules that generate their Python code when somebody first asks for it: compilers read only the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


class FunctionalModule(fx.GraphModule):
    """An `fx.GraphModule` in all respects; `code` and `forward` are made on first use and after `recompile`."""

    def recompile(self) -> Any:
        """Forget generated code: the graph has changed."""
        self._generated = False
        type(self).forward = _generate_and_run
        return None

    def _generate(self) -> None:
        if not self._generated:
            self._generated = True
            fx.GraphModule.recompile(self)

    @property
    def code(self) -> str:
        """The Python source of `forward`."""
        self._generate()
        return super().code


def _generate_and_run(self: FunctionalModule, *args: Any) -> Any:
    self._generate()
    return self.forward(*args)


def module_of(graph: fx.Graph, constants: dict[str, torch.Tensor], name: str) -> FunctionalModule:
    """A module that runs `graph`, with those of `constants` attached that it uses."""
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    return FunctionalModule({key: value for key, value in constants.items() if key in used}, graph, name)
