"""`schedule`: fusion, order, memory and kernels, one after the other.

Flows in: `Program` and `Options`. Flows out: `Schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count

import sympy

from inductor.backends import traits_of
from inductor.device import JointKernel, Kernel
from inductor.ir.body import Body
from inductor.ir.loops import canonicalise
from inductor.ir.program import ExternOp, LoopOp, Operation, Program
from inductor.options import Options
from inductor.schedule.batches import in_batches
from inductor.schedule.fusion import fuse
from inductor.schedule.joints import Call, JointLaunch, joint_launches
from inductor.schedule.kernels import KernelCallSite, KernelTable
from inductor.schedule.loops import loop_order
from inductor.schedule.memory import MemoryPlan, plan_memory
from inductor.schedule.merge import merge
from inductor.schedule.nodes import ExternNode, Graph, Group, Member, Node, build
from inductor.schedule.order import order
from inductor.schedule.positions import check_first
from inductor.schedule.space import estimate, number
from inductor.schedule.split_reductions import split_reductions
from inductor.schedule.totals import is_total
from inductor.traits import TraitsOf
from symshapes import dataclass

Supports = Callable[[Kernel], bool]


@dataclass(frozen=True)
class KernelStep:
    """A call of a kernel. `buffers` and, behind them, `numbers` are its arguments, in order."""

    kernel: Kernel
    buffers: tuple[str, ...]
    numbers: tuple[sympy.Expr, ...]
    loop: LoopOp


@dataclass(frozen=True)
class ExternStep:
    """A call of an ATen kernel."""

    op: ExternOp


Step = KernelStep | ExternStep


@dataclass(frozen=True)
class Batch:
    """Steps that run at the same time, by a few launches."""

    steps: range
    joint: tuple[JointLaunch, ...]


@dataclass(frozen=True)
class Schedule:
    """All that happens in a call, in order."""

    program: Program
    steps: tuple[Step, ...]
    memory: MemoryPlan
    kernels: tuple[Kernel, ...]
    """Each kernel that is called by itself, once."""
    unsupported: frozenset[str]
    """Names of those that the backend can't print."""
    batches: tuple[Batch, ...] = ()
    """Steps that run at the same time, where any do; by place."""

    @property
    def joint_kernels(self) -> tuple[JointKernel, ...]:
        """What runs kernels together."""
        return tuple(launch.kernel for batch in self.batches for launch in batch.joint)

    @property
    def launches(self) -> int:
        """Kernels that a call launches."""
        joint = [launch for batch in self.batches for launch in batch.joint]
        steps = sum(isinstance(step, KernelStep) for step in self.steps)
        return steps - sum(len(launch.steps) for launch in joint) + len(joint)

    def __str__(self) -> str:
        lines = []
        batches = {batch.steps.start: batch for batch in self.batches}
        for at, step in enumerate(self.steps):
            if at in batches:
                for launch in batches[at].joint:
                    parts = ", ".join(map(str, launch.steps))
                    lines.append(f"{launch.kernel.name} runs by one launch the steps {parts}")
            if isinstance(step, KernelStep):
                loop = step.loop
                outer = ", ".join(map(str, loop.outer_sizes))
                inner = ", ".join(map(str, loop.inner_sizes))
                kinds = "; ".join(
                    f"{arg.role} {name}" for arg, name in zip(step.kernel.args, step.buffers, strict=False)
                )
                lines.append(f"{step.kernel.name}({kinds}) over [{outer} | {inner}]")
            else:
                lines.append(f"{step.op.target}{step.op.writes}")
            lines += [
                f"    {name} in memory of {self.memory.reused[name]}"
                for name in (step.loop if isinstance(step, KernelStep) else step.op).writes
                if name in self.memory.reused
            ]
            if at < len(self.memory.frees) and self.memory.frees[at]:
                lines.append(f"    free {', '.join(sorted(self.memory.frees[at]))}")
        return "\n".join(lines)


def schedule(
    program: Program,
    options: Options | None = None,
    supports: Supports | None = None,
    traits: TraitsOf = traits_of,
) -> Schedule:
    """Fuse, order and plan `program`.

    Args:
        supports: whether the device's backend can print a kernel; a fused one it can't is taken apart again.
        traits: what is true of each device.
    """
    options = Options() if options is None else options
    program = check_first(program, options, traits)
    graph, groups = _fused(program, options, traits)
    program, nodes = graph.program, order(graph, groups)
    together = in_batches(graph, nodes, traits) if options.joint_launches else [[at] for at in range(len(nodes))]
    merged = {key: merged_loop(graph, node) for key, node in enumerate(nodes) if isinstance(node, Group)}
    apart: set[int] = set()
    while True:
        operations = list(_operations(graph, nodes, merged, apart, chain.from_iterable(together)))
        ranges = list(_ranges(together, [key for _, key in operations]))
        memory = plan_memory(program, [op for op, _ in operations], options, ranges)
        table = KernelTable(program)
        steps: list[Step] = []
        users: dict[str, list[int]] = {}
        for at, (operation, key) in enumerate(operations):
            if isinstance(operation, LoopOp):
                site = table.call(operation, memory.inplace.get(at))
                steps.append(KernelStep(site.kernel, site.buffers, site.numbers, operation))
                users.setdefault(site.kernel.name, []).append(key)
            else:
                steps.append(ExternStep(operation))
        unsupported = {name for name, kernel in table.kernels.items() if supports is not None and not supports(kernel)}
        fused = {key for name in unsupported for key in users[name] if len(_members(nodes[key])) > 1} - apart
        if fused:
            apart |= fused
            together = list(_without(together, fused))
            continue
        batches = _batches(graph, steps, ranges, unsupported, traits)
        joint = {at for batch in batches for launch in batch.joint for at in launch.steps}
        left = {operations[at][1] for steps_of in ranges for at in steps_of if at not in joint}
        if not left:
            alone = {s.kernel.name for at, s in enumerate(steps) if isinstance(s, KernelStep) and at not in joint}
            kernels = tuple(kernel for name, kernel in table.kernels.items() if name in alone)
            return Schedule(program, tuple(steps), memory, kernels, frozenset(unsupported), batches)
        together = list(_without(together, left))


def _fused(program: Program, options: Options, traits: TraitsOf) -> tuple[Graph, list[Node]]:
    """The graph of a program, and its loops in as few kernels as can be."""
    alone = set[str]()
    while True:
        cut = split_reductions(program, options, traits, alone)
        graph = build(cut.program)
        nodes = fuse(graph, options, traits)
        kept = {name for node in nodes if isinstance(node, Group) for name in node.totals}
        refused = {result for name, result in cut.hoped.items() if name not in kept}
        if not refused:
            return graph, nodes
        alone |= refused


def _ranges(together: Iterable[Sequence[int]], keys: Sequence[int]) -> Iterator[range]:
    """The operations of each batch of nodes.

    Args:
        keys: per operation its node's position.
    """
    place = {key: at for at, key in enumerate(keys)}
    for batch in together:
        places = [place[key] for key in batch if key in place] if len(batch) > 1 else []
        if len(places) > 1:
            yield range(places[0], places[-1] + 1)


def _without(together: Iterable[Sequence[int]], keys: Collection[int]) -> Iterator[list[int]]:
    """The batches without some of their nodes, which come behind them."""
    for batch in together:
        inside = [key for key in batch if key not in keys]
        if inside:
            yield inside
        yield from ([key] for key in batch if key in keys)


def _batches(
    graph: Graph, steps: Sequence[Step], ranges: Sequence[range], unsupported: Collection[str], traits: TraitsOf
) -> tuple[Batch, ...]:
    """What runs at the same time, by as few launches as can be."""
    names = count()
    found = []
    for batch in ranges:
        calls = []
        for at in batch:
            step = steps[at]
            assert isinstance(step, KernelStep)
            if step.kernel.name not in unsupported:
                bytes = sum(map(graph.bytes, step.buffers))
                calls.append(Call(at, KernelCallSite(step.kernel, step.buffers, step.numbers), bytes))
        if calls:
            device = calls[0].site.kernel.device
            least = traits(device).joins or len(calls)
            name = (f"{device.type}_together_{at}" for at in names)
            found.append(Batch(batch, tuple(joint_launches(calls, least, lambda name=name: next(name)))))  # type: ignore[misc]
    return tuple(found)


def _members(node: Node) -> list[Member]:
    return node.members if isinstance(node, Group) else []


def _operations(
    graph: Graph, nodes: Sequence[Node], merged: Mapping[int, LoopOp], apart: Collection[int], keys: Iterable[int]
) -> Iterator[tuple[Operation, int]]:
    """What to run, each with the position of its node, in this order; of a node in `apart` each loop by itself."""
    for key in keys:
        node = nodes[key]
        if isinstance(node, ExternNode):
            yield node.op, key
        elif key in apart:
            for member in node.members:
                loop = graph.operations[member.at] if is_total(member.loop) else member.loop
                assert isinstance(loop, LoopOp)
                yield loop, key
        elif merged[key].writes:
            yield merged[key], key


def merged_loop(graph: Graph, group: Group) -> LoopOp:
    """A group as one loop. It writes only what someone outside reads."""
    program = graph.program
    kept = tuple(name for name in group.stores if name in graph.kept or graph.users.get(name, 0) & ~group.bits)
    dropped = group.stores.keys() - set(kept)
    body = merge(group, lambda name: program.buffers[name].loaded_dtype, dropped)
    outer = loop_order(group, body, graph)
    body = Body(tuple(d.var for d in outer), body.inner_vars, body.ops)
    body, outer_sizes, inner_sizes = canonicalise(
        body,
        [sympy.sympify(d.size) for d in outer],
        [sympy.sympify(d.size) for d in group.inner],
        lambda expr: estimate(number(expr)),
        group.keep_inner_order,
    )
    loops = [member.loop for member in group.members]
    return LoopOp(
        writes=kept,
        device=group.device,
        outer_sizes=outer_sizes,
        inner_sizes=inner_sizes,
        body=body,
        origins=tuple(dict.fromkeys(node for loop in loops for node in loop.origins)),
        initial=tuple(pair for loop in loops for pair in loop.initial if pair[0] in kept),
    )
