"""Python source that is being written: lines, and the objects that they name. In: text. Out: what it defines."""

from __future__ import annotations

from typing import Any

from symshapes import build_python


class Source:
    """Python source that is being written, and the objects that it refers to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def line(self, text: str, depth: int = 0) -> None:
        self.lines.append("    " * depth + text)

    def name(self, value: Any, hint: str) -> str:
        """A name for `value` in the generated code."""
        for known, held in self.names.items():
            if held is value:
                return known
        name = f"{hint}_{len(self.names)}"
        self.names[name] = value
        return name

    def build(self, entry: str) -> Any:
        """Execute the source and return what it calls `entry`."""
        text = "\n".join(self.lines) + "\n"
        function = build_python(text, self.names, entry=entry, title="aotgrad")
        function.__source__ = text
        return function
