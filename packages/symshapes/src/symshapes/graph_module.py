"""Graph modules that generate their Python code when somebody first asks for it: compilers read only the graph."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

from symshapes import _torch
from symshapes.generated import build_python
from symshapes.graph_text import forward_text

_TORCH_FUNCTION = re.compile(r"(?<![\w.])torch(?:\.\w+)+(?=\()")


class _Forward:
    """`forward` before anybody has asked for it."""

    def __get__(self, module: LazyGraphModule | None, owner: type | None = None) -> Any:
        return self if module is None else module.generate().forward


class LazyGraphModule(fx.GraphModule):
    """An `fx.GraphModule` in all respects; `code` and `forward` are made, each for itself, on first use and after `recompile`.

    `forward` is generated code as `build_python` makes it.
    """

    def recompile(self) -> Any:
        """Forget generated code: the graph has changed."""
        self._text: str | None = None
        type(self).forward = _Forward()  # type: ignore[assignment]
        self._recompile_submodules()

    def generate(self) -> LazyGraphModule:
        """This module, with `forward` made."""
        if isinstance(type(self).forward, _Forward):
            type(self).forward = self.make_forward()
        return self

    def make_forward(self) -> Any:
        """The function `forward` of the graph as it is."""
        text, names = forward_text(self._graph) or self._as_written()
        return build_python(text, names, entry="forward", title="graph")

    def shown_text(self) -> str:
        """The text of such a function with a line for each call; "" where that is not how it would be written."""
        found = forward_text(self._graph)
        return "" if found is None else found[0]

    def _as_written(self) -> tuple[str, dict[str, Any]]:
        """What FX writes, and what the names in it stand for."""
        python = self._graph.python_code(root_module="self")
        text, names = self._bound(python.src)
        return text, {**python.globals, **names}

    def _bound(self, text: str) -> tuple[str, dict[str, Any]]:
        """The text with torch's functions by names of their own, and what those stand for.

        Written as `torch.nn.functional.relu`, a function would be whatever is there when the graph is called.
        """
        called: Any = {n.target for n in self._graph.nodes if n.op == "call_function"}
        targets = {_torch.written_name(target): target for target in called if _torch.is_written_by_name(target)}
        names: dict[str, Any] = {}

        def name_of(match: re.Match[str]) -> str:
            target = targets.get(match[0])
            if target is None:
                return match[0]
            name = match[0].replace(".", "_")
            names[name] = target
            return name

        return _TORCH_FUNCTION.sub(name_of, text), names

    @property
    def _code(self) -> str | None:
        if self._text is None:
            self._text = self._graph.python_code(root_module="self").src
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return fx.GraphModule(self, self._graph, self._get_name()).__reduce__()  # type: ignore[no-untyped-call]
