"""Control flow: a graph that holds some is compiled in pieces, and what the pieces run between them decides as it runs.

In: a graph with calls of `symshapes.ControlFlow`. Out: a function that calls the compiled pieces and, between them, these
operations over compiled graphs. Each piece has its own place in autograd, and is compiled with the switches of torch set that the
graph sets before it; a piece under autocast, say, makes the calls that set it, which cost nothing where it is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.errors import Unsupported
from aotgrad.source import Source, built, tuple_of
from aotgrad.state_blocks import sets_state, state_blocks
from symshapes import Ambient, ControlFlow, LazyGraphModule, Switch, fixed_ambient

State = tuple[tuple[fx.Node, ...], tuple[fx.Node, ...]]
"""Calls that set torch's state, made before a node and after it, within their block."""

Compile = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]
"""Compiles a graph without control flow, or with, for inputs like these."""


def controls(program: Any) -> bool:
    """Whether it is a graph with control flow."""
    return isinstance(program, fx.GraphModule) and any(map(_is_control, program.graph.nodes))


def _is_control(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and isinstance(node.target, ControlFlow)


def compile_in_pieces(program: fx.GraphModule, compile_one: Compile) -> Callable[..., Any]:
    """The program's function of its inputs.

    Raises Unsupported for a graph that holds tensors or modules, or decides under autocast, say, that it sets itself.
    """
    modes = _grad_modes(program.graph.nodes)
    under = _state_of(list(program.graph.nodes))
    nodes = [
        node for node in program.graph.nodes if node.target is not _torch.set_grad_enabled and not sets_state(node)
    ]
    for node in nodes:
        gives_nothing = node.op.startswith("call") and node.meta.get("val") is None
        acts = gives_nothing and not node.all_input_nodes  # on no value of the graph, so on torch's state
        if acts or node.op in ("get_attr", "call_module"):
            raise Unsupported("control flow in a graph that sets torch's state, or holds modules", _first(nodes))
    runs = list(_parts(nodes))
    last: dict[fx.Node, int] = {}
    for at, (_, part) in enumerate(runs):
        for node in part:
            last.update(dict.fromkeys(node.all_input_nodes, at))
    output = nodes[-1]
    last.update(dict.fromkeys(output.all_input_nodes, len(runs)))

    def write(source: Source) -> None:
        inputs = [node for node in nodes if node.op == "placeholder"]
        names = {node: f"v{at}" for at, node in enumerate(nodes)}
        with ExitStack() as blocks:
            blocks.enter_context(source.block(f"def run({', '.join(names[node] for node in inputs)}):"))
            source.names["set_grad"] = _torch.set_grad_enabled
            if switches:
                source.names |= {"backs": _backs, "put_back": _put_back}
                source.names["switches"] = switches
                source.line("before = backs(switches)")
                blocks.callback(_write_put_back, source)
                blocks.enter_context(source.block("try:"))
            for at, (control, part) in enumerate(runs):
                inside = set(part)
                made = [node for node in part if last.get(node, -1) > at]
                targets = tuple_of([names[node] for node in made]) if made else "_"
                if control:
                    (node, *_) = part
                    names[node] = f"control{at}"
                    source.names[f"control_{at}"] = operations[at]
                    given = ", ".join(names[value] for value in node.args)
                    mode = modes.get(node, enabled)
                    with (
                        source.within(f"set_grad({mode})", f"set_grad({enabled})") if mode != enabled else nullcontext()
                    ):
                        source.line(f"control{at} = control_{at}({given})")
                    for item in part[1:]:
                        source.line(f"{names[item]} = control{at}[{item.args[1]}]")
                else:
                    source.names[f"piece_{at}"] = operations[at]
                    given = ", ".join(names[node] for node in _given(part, inside))
                    source.line(f"{targets} = piece_{at}({given})")
                dead = [names[node] for node, end in last.items() if end == at and node not in inside]
                if dead:
                    source.line(f"del {', '.join(dead)}")
            returned = fx.node.map_arg(output.args[0], lambda node: _Name(names[node]))
            source.line(f"return {returned!r}")

    enabled = torch.is_grad_enabled()
    operations: list[Any] = []
    switches: list[Switch] = []
    # As it is where the graph begins, and again when all is compiled.
    before = _backs([node.target for node in nodes if isinstance(node.target, Switch)])
    try:
        for at, (control, part) in enumerate(runs):
            target = part[0].target
            if isinstance(target, Switch):
                switches.append(target)
                target()
            mode = modes.get(part[0], enabled) if control else enabled
            with torch.set_grad_enabled(mode), fixed_ambient(Ambient.now()) if switches else nullcontext():
                operations.append(
                    _controlled(part[0], compile_one)
                    if control
                    else _piece(program, part, last, at, compile_one, modes, under)
                )
    finally:
        _put_back(before)
    return built(write, "run")


def _backs(switches: Sequence[Switch]) -> list[Switch]:
    """What sets torch's switches as they are, in the order in which these set them."""
    return [switch.back() for switch in switches]


def _put_back(backs: Sequence[Switch]) -> None:
    for switch in reversed(backs):
        switch()


def _write_put_back(source: Source) -> None:
    """A piece that raises leaves the program's blocks, each of which would put back what it has set."""
    with source.block("except BaseException:"):
        source.line("put_back(before)")
        source.line("raise")


def _grad_modes(nodes: Iterable[fx.Node]) -> Mapping[fx.Node, bool]:
    """The grad mode that each call runs in, of those after the first that sets it."""
    found: dict[fx.Node, bool] = {}
    mode: bool | None = None
    for node in nodes:
        if node.target is _torch.set_grad_enabled:
            mode = bool(node.args[0])
        elif mode is not None:
            found[node] = mode
    return found


def _state_of(nodes: list[fx.Node]) -> dict[fx.Node, State]:
    """The calls that set torch's state for each of the other nodes, and those that set it back."""
    found: dict[fx.Node, State] = {}
    place = {node: at for at, node in enumerate(nodes)}
    for block in state_blocks(nodes):
        for node in nodes[place[block[0]] : place[block[-1]]]:
            if sets_state(node):
                continue
            if _is_control(node) and not isinstance(node.target, Switch):
                raise Unsupported("control flow under state that the graph sets, as autocast", node)
            made = sum(place[call] < place[node] for call in block)
            found[node] = tuple(block[:made]), tuple(block[made:])
    return found


def _set_state(graph: fx.Graph, now: State, wanted: State) -> State:
    """Write the calls that lead from one node's state to the next one's."""
    (made, back), (then, _) = now, wanted
    if then[: len(made)] == made:
        calls = then[len(made) :]
    else:  # out of one block, and into another
        calls = (*back, *then)
    for call in calls:
        graph.node_copy(call)
    return wanted


class _Name(str):
    """Prints as itself."""

    def __repr__(self) -> str:
        return str(self)


def _first(nodes: Sequence[fx.Node]) -> fx.Node:
    return next(filter(_is_control, nodes))


def _parts(nodes: Sequence[fx.Node]) -> Iterator[tuple[bool, list[fx.Node]]]:
    """Runs of calls, and between them calls of control flow with the parts that are taken of their results."""
    part: list[fx.Node] = []
    items = {node for node in nodes if node.target is operator.getitem and _is_control(node.args[0])}
    for node in nodes:
        if node.op in ("placeholder", "output") or node in items:
            continue
        if _is_control(node):
            if part:
                yield False, part
            part = []
            yield True, [node, *(item for item in node.users if item in items)]
        else:
            part.append(node)
    if part:
        yield False, part


def _given(part: Sequence[fx.Node], inside: set[fx.Node]) -> list[fx.Node]:
    """What a piece reads that is made outside of it."""
    return list(dict.fromkeys(value for node in part for value in node.all_input_nodes if value not in inside))


def _piece(
    program: fx.GraphModule,
    part: Sequence[fx.Node],
    last: dict[fx.Node, int],
    at: int,
    compile_one: Compile,
    modes: Mapping[fx.Node, bool],
    under: Mapping[fx.Node, State],
) -> Callable[..., Any]:
    graph = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}
    given = _given(part, set(part))
    for node in given:
        env[node] = graph.placeholder(node.name)
        env[node].target = env[node].name
        env[node].meta["val"] = node.meta["val"]
    begun = now = torch.is_grad_enabled()
    calls: State = ((), ())
    for node in part:
        if modes.get(node, begun) != now:
            now = not now
            _set_grad(graph, now)
        calls = _set_state(graph, calls, under.get(node, ((), ())))
        env[node] = graph.node_copy(node, env.__getitem__)
    _set_state(graph, calls, ((), ()))
    if now != begun:
        _set_grad(graph, begun)
    graph.output(tuple(env[node] for node in part if last.get(node, -1) > at))
    module = LazyGraphModule(torch.nn.Module(), graph)
    module.meta |= {**program.meta, "beneath": True}
    try:
        return compile_one(module, [node.meta["val"] for node in given])
    except Unsupported as refusal:
        back = {new: old for old, new in env.items()}
        raise Unsupported(str(refusal), back.get(refusal.call)) from refusal  # type: ignore[arg-type]


def _set_grad(graph: fx.Graph, value: bool) -> None:
    graph.call_function(_torch.set_grad_enabled, (value,)).meta["val"] = None


def _controlled(node: fx.Node, compile_one: Compile) -> ControlFlow:
    """The operation over compiled graphs."""
    assert isinstance(node.target, ControlFlow)
    graphs = []
    for graph in node.target.graphs:
        assert isinstance(graph, fx.GraphModule)
        graph.meta["beneath"] = True
        inputs = [place.meta["val"] for place in graph.graph.find_nodes(op="placeholder")]
        try:
            graphs.append(compile_one(graph, inputs))
        except Unsupported as refusal:
            raise Unsupported(str(refusal), node) from refusal
    return node.target.over(graphs)
