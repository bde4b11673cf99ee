"""Graph modules that generate their Python code when somebody first asks for it: compilers read only the graph."""

from __future__ import annotations

from typing import Any

from torch import fx

from symshapes.generated import build_python


class _Forward:
    """`forward` before anybody has asked for it."""

    def __get__(self, module: LazyGraphModule | None, owner: type | None = None) -> Any:
        return self if module is None else module.generate().forward


class LazyGraphModule(fx.GraphModule):
    """An `fx.GraphModule` in all respects; `code` and `forward` are made on first use and after `recompile`.

    `forward` is generated code as `build_python` makes it.
    """

    def recompile(self) -> Any:
        """Forget generated code: the graph has changed."""
        self._text: str | None = None
        type(self).forward = _Forward()
        self._recompile_submodules()

    def generate(self) -> LazyGraphModule:
        """This module, with `code` and `forward` made."""
        if self._text is None:
            python = self._graph.python_code(root_module="self")
            self._text = python.src
            type(self).forward = build_python(python.src, python.globals, entry="forward", title="graph")
        return self

    @property
    def _code(self) -> str | None:
        return self.generate()._text

    def __reduce__(self) -> tuple[Any, ...]:
        return fx.GraphModule(self, self._graph, self._get_name()).__reduce__()
