"""Python source that is being written: lines, the objects that they name, and compiled graphs that they run.

In: text, and compiled graphs that may offer their own. Out: what it defines. A graph that offers its body (`StraightLine`)
is run without a frame of its own; one that will offer it after its first call is taken in then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from symshapes import StraightLine, build_python, dataclass, names_in


@dataclass(frozen=True)
class _Body:
    """The body of a compiled graph, whose names are chosen once all others are known."""

    piece: StraightLine
    target: str
    arguments: str
    call: str
    listed: bool
    depth: int

    def lines(self, piece: StraightLine) -> Iterator[str]:
        depth = self.depth
        if piece.only_if:
            yield _indented(f"if {piece.only_if}:", depth)
            depth += 1
        if piece.inputs:
            yield _indented(_assigned(piece.inputs, self.arguments), depth)
        for line in piece.lines:
            yield _indented(line, depth)
        result = f"[{piece.result[1:-1].removesuffix(',')}]" if self.listed else piece.result
        yield _indented(f"{self.target} = {result}", depth)
        if piece.only_if:
            yield _indented("else:", depth - 1)
            yield _indented(self.call, depth)


class Source:
    """Python source that is being written, and the objects that it refers to by name.

    `unready`: it calls a compiled graph that may offer its body later; it then calls `fold()`.
    """

    def __init__(self, names: Mapping[str, Any] | None = None) -> None:
        self.lines: list[str | _Body] = []
        self.names: dict[str, Any] = dict(names or {})
        self.depth = 0
        self.unready = False

    def line(self, text: str, depth: int = 0) -> None:
        """One line, `depth` deeper than the block that is being written."""
        self.lines.append(_indented(text, self.depth + depth))

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """What is written inside belongs to the last of `heads`; without any, to no block."""
        for head in heads:
            self.line(head)
        self.depth += bool(heads)
        yield
        self.depth -= bool(heads)

    @contextmanager
    def within(self, before: str, after: str) -> Iterator[None]:
        """What is written inside runs between these two, whatever happens."""
        with self.block(before, "try:"):
            yield
        with self.block("finally:"):
            self.line(after)

    def name(self, value: Any, hint: str) -> str:
        """A name for `value` in the generated code."""
        for known, held in self.names.items():
            if held is value:
                return known
        name = f"{hint}_{len(self.names)}"
        self.names[name] = value
        return name

    def call(self, target: str, name: str, compiled: Any, arguments: str, *, listed: bool = False) -> None:
        """Let `target` be what `compiled` gives for a list of `arguments`; `listed`: as a list.

        `name`: what the source calls the compiled graph. Gradients are switched off where this runs.
        """
        self.names[name] = compiled
        call = f"{name}([{arguments}])"
        text = f"{target} = {f'[*{call}]' if listed else call}"
        piece = offered(compiled)
        if piece is not None:
            self.lines.append(_Body(piece, target, arguments, text, listed, self.depth))
            return
        self.line(text)
        if offers(compiled):
            self.unready = True
            self.line("fold()")

    def build(self, entry: str) -> Any:
        """Execute the source and return what it calls `entry`."""
        taken = names_in(line for line in self.lines if isinstance(line, str)) | self.names.keys()
        names, lines = dict(self.names), list[str]()
        head: list[str] = []
        for line in self.lines:
            if isinstance(line, str):
                lines.append(line)
                continue
            piece = line.piece.avoiding(taken)
            taken |= names_in(piece.head) | piece.names.keys()
            head += piece.head
            names |= piece.names
            lines += line.lines(piece)
        text = "\n".join([*head, *(["", ""] if head else []), *lines]) + "\n"
        function = build_python(text, names, entry=entry, title="aotgrad")
        function.__source__ = text
        return function


def built(write: Callable[[Source], None], entry: str) -> Any:
    """The function `entry` that `write` writes. Once the compiled graphs in it offer their bodies it takes those in."""
    source = Source()
    write(source)
    function = source.build(entry)
    if source.unready:
        # From the first call on, by the function itself; it must not be what keeps itself alive.
        function.__globals__["fold"] = _folding(weakref.ref(function), write, source.names, entry)
    return function


def _folding(
    function: Callable[[], Any], write: Callable[[Source], None], names: Mapping[str, Any], entry: str
) -> Callable[[], None]:
    def fold() -> None:
        source = Source(names)  # what still runs of the code before finds what it knows by its names
        write(source)
        old = function()
        if source.unready or old is None:
            return
        new = source.build(entry)
        old.__globals__.update({name: value for name, value in new.__globals__.items() if name not in names})
        old.__globals__["fold"] = _nothing  # for who runs the code before
        old.__code__, old.__source__ = new.__code__, new.__source__

    return fold


def _nothing() -> None:
    pass


def offers(compiled: Any) -> bool:
    """Whether a compiled graph has a body to offer, now or later."""
    return hasattr(compiled, "straight_line")


def offered(compiled: Any) -> StraightLine | None:
    """The body of a compiled graph, if it offers one now."""
    found: StraightLine | None = compiled.straight_line() if offers(compiled) else None
    return found


def _assigned(variables: Sequence[str], arguments: str) -> str:
    """Sets variables to what a list of `arguments` would hold."""
    if "*" not in arguments:
        return f"{', '.join(variables)} = {arguments}"
    targets = ", ".join(variables) if len(variables) > 1 else f"({variables[0]},)"
    return f"{targets} = {arguments if ',' in arguments else arguments.removeprefix('*')}"


def _indented(text: str, depth: int) -> str:
    return "    " * depth + text


def tuple_of(values: Sequence[str]) -> str:
    """The text of a tuple."""
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"
