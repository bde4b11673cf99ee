"""Functional forms of operators that write to their arguments and come without one, as a user's `custom_op` does.

In: such an operator, and which of a call's tensors lie in whose memory. Out: two operators of the same call over whole
blocks of memory: one that writes to them, `aotgrad::...__in_place`, and one that gives their new values instead.

A call is handed the memory that its tensors are views of, and where in it they lie: what two of them share they share here,
too, and a kernel that is given a pointer finds beyond a view what eager has there.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from aotgrad.errors import Unsupported
from symshapes import (
    OperatorFacts,
    dataclass,
    facts_of,
    in_turn,
    register_fake,
    register_in_place,
    register_launches,
    same_layout,
    same_size,
    same_sizes,
)

_library = torch.library.Library("aotgrad", "FRAGMENT")

_names: Counter[str] = Counter()
"""Of operators made here: one that was defined anew, as in a notebook, is another."""

Place = tuple[int, bool] | None
"""Of a tensor of a call the number of its block and whether it is a view of that; None where none was passed."""


@dataclass(frozen=True)
class Layout:
    """How the tensors of a call lie in blocks of memory: one entry for each tensor parameter, a tuple for a list."""

    places: tuple[Place | tuple[Place, ...], ...]
    written: tuple[bool, ...]
    """Of each block."""

    def text(self) -> str:
        """A name for it."""

        def one(place: Any) -> str:
            if place is None:
                return "n"
            if place and type(place[0]) is int:
                return f"{'v' if place[1] else 't'}{place[0]}"
            return f"l{''.join(map(one, place))}e"

        return "_".join(("".join(map(one, self.places)), "".join("01"[w] for w in self.written)))


@dataclass(frozen=True)
class Forms:
    """`in_place(*blocks, windows, *others)` gives the call's own results; `functional` those, then the written blocks' values.

    `windows` are size, strides and offset of each view in its block, one after the other; `others` what are no tensors.
    """

    in_place: Any
    functional: Any
    results: int


def is_tensors(argument: Any) -> bool:
    """Whether a parameter takes a tensor or several."""
    return "Tensor" in str(argument.type)


class Blocks:
    """One call taken apart. `root`: the whole of the memory that a tensor lies in, as a tensor.

    `tensors` are the blocks, `windows` and `others` what else `Forms` take.
    """

    def __init__(
        self,
        op: Any,
        facts: OperatorFacts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        root: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self.op = op
        self.tensors: list[torch.Tensor] = []
        self.windows: list[Any] = []
        self.others: list[Any] = []
        self._dims: list[int] = []
        self._root = root
        written: set[int] = set()
        places = []
        for at, argument in enumerate(op._schema.arguments):
            value = args[at] if at < len(args) else kwargs.get(argument.name, argument.default_value)
            if not is_tensors(argument):
                self.others.append(value)
                continue
            several = isinstance(value, (list, tuple))
            found = tuple(map(self._place, value)) if several else (self._place(value),)
            if any(argument.name == w.name for w in facts.written):
                written.update(place[0] for place in found if place is not None)
            places.append(found if several else found[0])
        self.layout = Layout(tuple(places), tuple(at in written for at in range(len(self.tensors))))

    def _place(self, tensor: torch.Tensor | None) -> Place:
        if tensor is None:
            return None
        block = self._root(tensor)
        number = next((at for at, known in enumerate(self.tensors) if known is block), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(block)
        offset = tensor.storage_offset() - block.storage_offset()
        if tensor.dtype is not block.dtype:
            raise Unsupported(f"{self.op} on a view of other numbers")
        if same_sizes(tensor, block) and same_layout(tensor, block) and same_size(offset, 0):
            return number, False
        self.windows += [*tensor.shape, *tensor.stride(), offset]
        self._dims.append(tensor.dim())
        return number, True

    def forms(self) -> Forms:
        """The operators for calls whose tensors lie as this one's do."""
        return forms_of(self.op, self.layout, tuple(self._dims))


@in_turn
@functools.cache
def forms_of(op: Any, layout: Layout, dims: tuple[int, ...]) -> Forms:
    """The forms of calls of `op` whose tensors lie so; `dims` are the dimensions of each view.

    Raises Unsupported where a result of the operator may be an argument or a view of one.
    """
    schema = op._schema
    facts = facts_of(op)
    if facts.aliases or any(number >= 0 for number in facts.returns_written):
        raise Unsupported(f"{op} gives its arguments, or views of them")
    parameters, returned = schema_texts(str(schema))
    others = [text for text, argument in zip(parameters, schema.arguments, strict=True) if not is_tensors(argument)]
    namespace, _, base = schema.name.partition("::")
    views = "_".join(map(str, dims))
    name = "__".join(filter(None, (namespace, base, schema.overload_name, layout.text(), views)))
    before = _names[name]
    _names[name] += 1
    name += f"__{before}" if before else ""
    blocks = [f"Tensor{f'(b{at}!)' if w else ''} block{at}" for at, w in enumerate(layout.written)]
    plain = [f"Tensor block{at}" for at in range(len(blocks))]
    rest = ["SymInt[] windows", *(text.partition("=")[0] for text in others)]
    results = ["Tensor"] * sum(layout.written)
    _library.define(f"{name}__in_place({', '.join([*blocks, *rest])}) -> ({', '.join(returned)})")
    _library.define(f"{name}({', '.join([*plain, *rest])}) -> ({', '.join([*returned, *results])})")
    run = _runner(op, layout, dims)
    count = len(blocks)

    def functional(*given: Any) -> Any:
        memory = [_copied(block) if w else block for block, w in zip(given, layout.written, strict=False)]
        return _all(run(*memory, *given[count:]), memory)

    def shapes(*given: Any) -> Any:
        memory = [
            torch.empty_strided(block.size(), block.stride(), dtype=block.dtype, device=block.device) if w else block
            for block, w in zip(given, layout.written, strict=False)
        ]
        return _all(run(*memory, *given[count:]) if returned else None, memory)

    def _all(found: Any, memory: Sequence[torch.Tensor]) -> Any:
        made = () if not returned else found if isinstance(found, tuple) else (found,)
        made = (*made, *(block for block, w in zip(memory, layout.written, strict=True) if w))
        return made[0] if len(made) == 1 else made

    for each, function, fake in ((f"{name}__in_place", run, run), (name, functional, shapes)):
        _library.impl(each, function, "CompositeExplicitAutograd")
        register_fake(f"aotgrad::{each}", fake, _library)
    forms = [getattr(torch.ops.aotgrad, each).default for each in (f"{name}__in_place", name)]
    register_in_place(forms[1], forms[0])
    if facts.launches:  # a copy of a block is no more than that, either
        for form in forms:
            register_launches(form)
    return Forms(forms[0], forms[1], len(returned))


def _runner(op: Any, layout: Layout, dims: tuple[int, ...]) -> Callable[..., Any]:
    """The call as a function of blocks, windows and what are no tensors."""
    count = len(layout.written)
    if layout.places == tuple((at, False) for at in range(count)):
        tensors = [is_tensors(argument) for argument in op._schema.arguments]
        if tensors == sorted(tensors, reverse=True) and not any(a.kwarg_only for a in op._schema.arguments):
            return lambda *given: op(*given[:count], *given[count + 1 :])
    parameters = [(argument.name, argument.kwarg_only, is_tensors(argument)) for argument in op._schema.arguments]

    def run(*given: Any) -> Any:
        blocks, windows, others = given[:count], given[count], iter(given[count + 1 :])
        sizes = iter(dims)
        at = 0

        def tensor(place: Any) -> Any:
            nonlocal at
            if place is None:
                return None
            if place and type(place[0]) is int:
                block = blocks[place[0]]
                if not place[1]:
                    return block
                dim = next(sizes)
                size, stride, offset = windows[at : at + dim], windows[at + dim : at + 2 * dim], windows[at + 2 * dim]
                at += 2 * dim + 1
                return block.as_strided(size, stride, block.storage_offset() + offset)
            return [tensor(each) for each in place]

        places = iter(layout.places)
        args, kwargs = [], {}
        for name, by_name, is_tensor in parameters:
            value = tensor(next(places)) if is_tensor else next(others)
            if by_name:
                kwargs[name] = value
            else:
                args.append(value)
        return op(*args, **kwargs)

    return run


def _copied(block: torch.Tensor) -> torch.Tensor:
    """A block's content in memory of its own, laid out alike."""
    made = torch.empty_strided(block.size(), block.stride(), dtype=block.dtype, device=block.device)
    return made.copy_(block)


def schema_texts(schema: str) -> tuple[list[str], list[str]]:
    """The parameters and the results of a schema as it is written, without the star."""
    start, end = schema.index("(") + 1, schema.index(") -> ")
    results = schema[end + 5 :].strip()
    if results.startswith("("):
        results = results[1:-1]
    return [text for text in _split(schema[start:end]) if text != "*"], _split(results)


def _split(text: str) -> list[str]:
    """At the commas that are in no brackets and no string."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
