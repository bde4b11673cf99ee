"""Generated code that other generated code may take in where it would call it: one frame less at each call.

Flows in: the text of a function without branches and what it refers to. Flows out: the same under names that are free.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from symshapes.records import dataclass

# Not attributes and not names of keyword arguments, which generated code writes without spaces.
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*(?!\w|=[^=])")


@dataclass(frozen=True)
class StraightLine:
    """The body of a function, to be written into another one.

    `inputs`: variables to be set first. `head`: assignments outside of any function, before. `lines`: statements.
    `result`: a tuple's text, parentheses and all, after them. `names`: the objects that all of it refers to. `only_if`: an
    expression over `names` that says whether the body may run as it is, or the function has to be called; empty: it may.
    """

    inputs: tuple[str, ...]
    head: tuple[str, ...]
    lines: tuple[str, ...]
    result: str
    names: Mapping[str, Any]
    only_if: str = ""

    def avoiding(self, taken: Collection[str]) -> StraightLine:
        """The same with other names for what it defines, as far as those are `taken`."""
        known = names_in([*self.head, *self.lines, self.result, self.only_if, *self.inputs, *self.names])
        suspected = known.intersection(taken)
        if not suspected:
            return self
        tree = ast.parse("\n".join([*self.head, *self.lines]))
        stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        others: dict[str, str] = {}
        for name in sorted(suspected & {*stored, *self.inputs, *self.names}):
            count = 0
            while (other := f"{name}_{count}") in known or other in taken:
                count += 1
            others[name] = other
        if not others:
            return self
        return replace(
            self,
            inputs=tuple(others.get(name, name) for name in self.inputs),
            head=tuple(_renamed(line, others) for line in self.head),
            lines=tuple(_renamed("\n".join(self.lines), others).splitlines()),
            result=_renamed(self.result, others),
            names={others.get(name, name): value for name, value in self.names.items()},
            only_if=_renamed(self.only_if, others),
        )


def names_in(lines: Iterable[str]) -> set[str]:
    """The names in lines of generated code: all that it reads or sets, and perhaps words of its texts."""
    found: set[str] = set()
    for line in lines:
        if not line.lstrip().startswith("#"):
            found.update(_NAME.findall(line))
    return found.difference(keyword.kwlist)


def _renamed(text: str, others: Mapping[str, str]) -> str:
    """The text with other names where it uses them as such; comments, texts and layout stay."""
    lines = text.encode().split(b"\n")  # the tree counts columns in bytes
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id in others]
    for node in sorted(names, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + others[node.id].encode() + line[node.end_col_offset :]
    return b"\n".join(lines).decode()
