"""Draws an example: the text of a state, of a program over it, and of the steps that change one and call the other."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from typing import Any

from hypothesis import strategies as st

from . import parts_data, parts_functions, parts_objects, parts_torch  # noqa: F401  (they fill the table)
from .parts import HOLES, PARTS, Part
from .values import ANY

# No integers: what only a kernel refuses is said when the graph runs, before what the program itself did until then.
INPUTS = (
    "torch.tensor([-1.0, 2.0, 0.5])",
    "torch.tensor([-1.0, 2.0, 0.5], requires_grad=True)",
    "torch.tensor([-1.0, 2.0, 0.5], dtype=torch.float64)",
    "torch.arange(6.0).reshape(2, 3) - 2.5",
    "torch.tensor([-1.0, 2.0, 0.5]).bfloat16()",
)
MODES = (
    "torch.no_grad()", "torch.inference_mode()", "torch.enable_grad()", "torch.autocast('cpu', dtype=torch.bfloat16)",
    "torch.autocast('cpu', dtype=torch.float16)", "torch.autocast('cpu', enabled=False)", "torch.device('cpu')",
    "torch.backends.cudnn.flags(enabled=False)", "torch.autograd.set_multithreading_enabled(False)",
)  # fmt: skip

#: What may be read of any place, written ``@``.
READS = (
    "x = use(x, @)", "x = use(x, @)", "x = use(x, @)",
    "out.append(@ is @)",
    "out.append((type(@).__name__, isinstance(@, (int, float)), callable(@)))",
    "if @:\n    x = x + 1",
    "out.append(@)",
    "x = use(x, getattr(@, '$m', 3))",
    "out.append(hasattr(@, '$m'))",
    "@ = $v",
    "@ = use(x, @).detach()",
    "@ = @",
    "x = use(x, outside(@))",
    "x = use(x, [@, @])",
    "x = x + sum(use(x, v) for v in (@, @))",
    "match @:\n    case int() | float() as v:\n        x = x + v\n    case str():\n        x = x * 2\n    case {'a': v} | [v, *_]:\n        x = use(x, v)\n    case None:\n        x = x - 1\n    case _:\n        x = x * 3",
    "x = x + (1 if @ is None else 2)",
    "out.append(isinstance(@, type(@)))",
    "x = functools.partial(use, v=@)(x)",
    "x = (lambda v=@: use(x, v))()",
)  # fmt: skip

#: The same, where most values raise.
RISKS = (
    "x = @(x)",
    "out.append(@ == @)",
    "out.append(len(@))",
    "for item in @:\n    x = use(x, item)",
    "out.append('a' in @)",
    "x = use(x, @[$k])",
    "x = use(x, @.$m)",
    "@ += $n",
    "out.append('{!r:.3}'.format(@))",
    "del @",
    "x = x * @",
    "x = x + len(@.__name__)",
    "x = use(x, @.get())",
    "x = use(x, sorted(@))",
)

#: How a statement may stand; ``$`` is where.
FRAMES = (
    "$", "$", "$",
    "for _ in range(2):\n    $",
    "outside(x)\n$",
    "$\noutside(x)",
    "with torch.no_grad():\n    $",
    "if x.dim() == 1:\n    $",
    "try:\n    $\nfinally:\n    x = x * 2",
)  # fmt: skip
#: How one that may raise does, mostly.
CAUGHT = (
    "try:\n    $\nexcept Exception as error:\n    out.append((type(error).__name__, str(error)))",
    "try:\n    $\nexcept (AttributeError, KeyError, IndexError, TypeError, ValueError):\n    x = x - 7",
    "try:\n    $\nexcept Exception as error:\n    x = x + len(str(error))\nelse:\n    x = x * 2",
)

#: What may be done to any place.
CHANGES = (
    "@ = $v", "@ = $v", "@ = $v", "@ = $f", "@ = $n",
    "del @", "@ = @", "@ = copy.copy(@)", "@ = copy.deepcopy(@)", "@[$k] = $v", "@.$m = $v", "@.append($v)", "@.clear()",
    "@ = [@, $v]", "@ = (@, @)", "@ = functools.partial(use, v=@, depth=1)", "@.__class__ = Other", "@.__dict__ = {'v': $v}", "del @.$m",
    "del @[$k]", "@.update(a=$v)", "@.reverse()", "@.data = torch.ones(3)", "@.k = $n", "@.training = False", "@.requires_grad_()",
    "own(@).__code__ = double.__code__", "own(@).__defaults__ = ($v,)", "own(type(@)).$m = $v", "own(type(@)).__call__ = lambda self, x: x * 4",
    "own(type(@)).__len__ = lambda self: 2", "@ = remade(@, @)", "@, @ = $v, $v", "@ += $n", "gc.collect()",
    "own(type(@)).__eq__ = lambda self, other: True", "own(type(@)).__bool__ = lambda self: False", "@ = lambda x: use(x, 2)",
)  # fmt: skip

#: What may be done to modules of one class, beside their parts.
ROOT_CHANGES = (
    "roots[$i] = Root()", "roots[$i] = copy.deepcopy(roots[$i])", "roots[$i].eval()", "roots[$i].train()", "roots[$i].__class__ = Renewed",
    "roots[$i].__class__ = Root", "roots[$i].extra = $v", "Root.extra = $v", "Root.forward = Renewed.forward", "roots[$i].forward = lambda x: (x * 7, [])",
    "roots[$i].register_forward_hook(lambda m, a, out: (out[0] * 2, out[1]))", "roots[$i].register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
    "roots[$i].double()", "roots[$i].float()", "roots[$i], roots[$i] = roots[$i], roots[$i]", "roots.append(Root())", "roots.reverse()",
    "vars(roots[$i])['forward'] = double_root", "roots[$i].__dict__.pop('forward', None)", "roots[$i].load_state_dict(roots[$i].state_dict())",
    "roots[1:] = [Root() for _ in roots[1:]]; call.forget(); gc.collect()", "call.forget(); gc.collect()", "roots[$i].requires_grad_(False)",
    "roots[$i].__dict__.update(vars(roots[$i]))", "roots[$i] = call.copied(roots[$i])", "Root.__call__ = lambda self, x: (x * 5, [])", "del Root.__call__",
    "Root.__bases__ = (Based,)", "roots[$i] = Renewed()", "roots[$i].kept = x = torch.ones(3)", "roots[$i].apply(lambda m: m)",
)  # fmt: skip

#: The ways to call a module: what is made for it, the step that calls one, whether ``call`` captures it.
WAYS = {
    "each": ("", "call(roots[$i], $x)"),
    "passed": ("def passed(root, x):\n    return root(x)", "call(passed, roots[$i], $x)"),
    "forward": ("for root in roots:\n    root.forward = compiled(root.forward)", "call.plainly(roots[$i], $x)"),
    "loop": (
        "def loop(x):\n    kept = []\n    for root in roots:\n        x, out = root(x)\n        outside(x)\n        kept.append(out)\n    return x, kept",
        "call(loop, $x)",
    ),
    "parent": (
        "class Parent(nn.Module):\n    def forward(self, x):\n        return [root(x) for root in self.layers]\n"
        "parent = Parent()\nparent.layers = nn.ModuleList(roots) if isinstance(roots[0], nn.Module) else roots",
        "call(parent, $x)",
    ),
}  # fmt: skip

ROOT = """
class Based(BASE):
    pass
class Root(BASE):
    def __init__(self):
        super().__init__()
{make}
    def forward(self, x):
{body}
class Renewed(Root):
    def forward(self, x):
        x, out = super().forward(x)
        return x * 3, out
def double_root(x):
    return x * 2, []
roots = [Root() for _ in range({count})]
{copies}
"""


@dataclasses.dataclass(frozen=True)
class Example:
    """Python text: what is made, and the steps after that, each of which may raise."""

    world: str
    steps: tuple[str, ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        return "\n".join(["", "from prelude import *", self.world, "# ---- steps ----", *self.steps, ""])


def indented(text: str, depth: int = 1) -> str:
    return textwrap.indent(text, "    " * depth)


def seldom(choices: tuple[str, ...]) -> st.SearchStrategy[str]:
    """The first choice, mostly."""
    return st.sampled_from((choices[0],) * (2 * len(choices)) + choices[1:])


def fill(draw: st.DrawFn, template: str, places: list[str], indices: int = 1) -> str:
    """The template with every hole filled."""

    def drawn(match: re.Match[str]) -> str:
        hole = match[0]
        if hole == "@":
            return draw(st.sampled_from(places))
        if hole == "$i":
            return str(draw(st.integers(0, indices - 1)))
        if hole == "$x":
            return draw(seldom(INPUTS))
        kind = draw(st.sampled_from(ANY)) if hole == "$v" else hole[1]
        return draw(st.sampled_from(HOLES[kind]))

    return re.sub(r"@(?!\w)|\$\w", drawn, template)


def statement(draw: st.DrawFn, chosen: list[Part], places: list[str]) -> str:
    """One of a program's statements."""
    tables = [part.reads for part in chosen] + ([READS, RISKS] if places else [])
    table = draw(st.sampled_from(tables))
    text = fill(draw, draw(st.sampled_from(table)), places)
    if draw(st.sampled_from([False, True, True] if table is RISKS else [True, False])):
        text = placed(text, draw(st.sampled_from(CAUGHT)))
    return placed(text, draw(st.sampled_from(FRAMES)))


def placed(text: str, frame: str) -> str:
    outer, _, inner = frame.partition("$")
    margin = len(outer) - len(outer.rstrip(" "))
    return outer + text.replace("\n", "\n" + " " * margin) + inner


def program(draw: st.DrawFn, chosen: list[Part], places: list[str]) -> str:
    lines = [statement(draw, chosen, places) for _ in range(draw(st.integers(1, 5)))]
    return "\n".join(["out = []", *lines, "return x, out"])


def names_made(parts: list[Part]) -> list[str]:
    return [name for part in parts for name in dict.fromkeys(re.findall(r"H\.(\w+)(?=[,\w. ]* = )", part.make))]


def written(body: str, names: list[str]) -> list[str]:
    """Those of the names that the body binds."""
    return [name for name in names if re.search(rf"(?m)^\s*(del )?H\.{name}( \+?= |$)", body)]


def in_globals(make: str, body: str, names: list[str]) -> tuple[str, str, str]:
    declared = [f"global {name}" for name in written(body, names)]
    text = f"{make}\ndef f(x):\n" + indented("\n".join([*declared, body]))
    return text.replace("H.", ""), "", "call(f, $x)"


def in_cells(make: str, body: str, names: list[str]) -> tuple[str, str, str]:
    declared = [f"nonlocal {name}" for name in written(body, names)]
    used = f"if x is None:\n    return {', '.join(names)}"
    inner = "def f(x):\n" + indented("\n".join([*declared, used, body])) + "\nreturn f"
    text = f"def made():\n{indented(make)}\n{indented(inner)}\nf = made()\ncells = Cells(f)"
    return text.replace("H.", ""), "cells.", "call(f, $x)"


def in_arguments(make: str, body: str, names: list[str]) -> tuple[str, str, str]:
    text = f"{make}\ndef f(x, {', '.join(names)}):\n{indented(body)}"
    return text.replace("H.", ""), "", f"call(f, $x, {', '.join(names)})"


HOLDERS = {"globals": in_globals, "cells": in_cells, "arguments": in_arguments}


def step(draw: st.DrawFn, templates: list[tuple[str, ...]], places: list[str], indices: int) -> list[str]:
    """A change, or one that is undone after a call."""
    table = draw(st.sampled_from(templates))
    if places and draw(st.integers(0, 3)) == 3:
        place = draw(st.sampled_from(places))
        change = fill(draw, "; ".join([f"saved = {place}", f"{place} = $v"]), places, indices)
        return [change, f"{place} = saved"]
    return [fill(draw, draw(st.sampled_from(table)), places, indices)]


def calls(draw: st.DrawFn, template: str, indices: int) -> list[str]:
    found = []
    for _ in range(draw(st.integers(1, 1 if indices == 1 else 3))):
        call = fill(draw, template, [], indices)
        mode = draw(seldom(("", *MODES)))
        found.append(f"with {mode}: {call}" if mode else call)
    return found


def steps(
    draw: st.DrawFn, chosen: list[Part], places: list[str], call: str, holder: str, indices: int
) -> tuple[str, ...]:
    templates = [part.changes for part in chosen]
    if places:
        templates.append(CHANGES)
    if indices > 1:
        templates.append(ROOT_CHANGES)
    found: list[str] = []
    if draw(st.integers(0, 3)) == 3:
        found += step(draw, templates, places, indices)[:1]
    found += calls(draw, call, indices)
    for _ in range(draw(st.integers(1, 6))):
        for change in step(draw, templates, places, indices):
            found += [change, *calls(draw, call, indices)]

    def held(text: str) -> str:
        index = str(draw(st.integers(0, indices - 1))) if "H." in text and "[$i]" in holder else ""
        return text.replace("H.", holder.replace("$i", index))

    return tuple(held(text) for text in found)


def parts_drawn(draw: st.DrawFn, most: int) -> list[Part]:
    names = draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=most, unique=True))
    return [PARTS[name] for name in names]


@st.composite
def one_state(draw: st.DrawFn) -> Example:
    """A function that finds its state in globals, cells or arguments."""
    chosen = parts_drawn(draw, 3)
    places = [place for part in chosen for place in part.places]
    classes = "\n".join(fill(draw, part.classes, []) for part in chosen)
    make = "\n".join(fill(draw, part.make, []) for part in chosen)
    body = program(draw, chosen, places)
    text, holder, call = HOLDERS[draw(st.sampled_from(sorted(HOLDERS)))](make, body, names_made(chosen))
    return Example(f"{classes}\n{text}", steps(draw, chosen, places, call, holder, 1))


@st.composite
def many_modules(draw: st.DrawFn) -> Example:
    """Modules or plain objects of one class, made anew or copied; some of their parts are shared."""
    chosen = parts_drawn(draw, 2)
    places = [place for part in chosen for place in part.places]
    classes = "\n".join(fill(draw, part.classes, []) for part in chosen)
    outer, inner = [], []
    for part in chosen:
        make = fill(draw, part.make, [])
        if draw(st.integers(0, 3)) == 3:
            outer.append(make.replace("H.", ""))
            inner += [f"self.{name} = {name}" for name in names_made([part])]
        else:
            inner.append(make.replace("H.", "self."))
    body = program(draw, chosen, places).replace("H.", "self.")
    count, copied = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    root = ROOT.format(
        make=indented("\n".join(inner), 2),
        body=indented(body, 2),
        count=count,
        copies="\n".join(["roots.append(copy.deepcopy(roots[0]))"] * copied),
    )
    base = draw(st.sampled_from(["nn.Module", "nn.Module", "nn.Module", "Callable"]))
    way, call = WAYS[draw(st.sampled_from(sorted(WAYS)))]
    world = "\n".join([classes, *outer, root.replace("BASE", base), way])
    return Example(world, steps(draw, chosen, places, call, "roots[$i].", count + copied))
