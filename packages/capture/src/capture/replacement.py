"""The code that runs in a frame's place: it calls the graph, applies side effects, and returns or goes on after a break.

In: an attempt that has ended, and a backend for its graph. Out: a ``Capture``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from types import CodeType
from typing import Any

import torch
from torch import fx

from symshapes import SYMBOLIC, dataclass, hint_of, is_generated, is_own_file

from . import _native
from ._torch import unasked
from .aliasing import separated
from .attempt import Attempt, Stopped
from .breaking import goes_on
from .bytecode import Instruction, argument_names, assemble, build
from .causes import MAYBE_OF_KINDS, OF_BLOCKS, OF_KINDS
from .departures import Departures
from .effects import Replay
from .emit import Emitter
from .errors import EvaluateAgain, GraphRefused, SkipFrame
from .evaluator.frame import HandlerState
from .evaluator.levels import leaving_levels
from .evaluator.program import program_of
from .evaluator.ways import STAYS
from .foreign import Foreign
from .frozen import Frozen, owners, what_freezes, witnesses
from .graph import Break, CapturedGraph
from .guards import Guard, GuardKind, LettingGo
from .lifetimes import lifetimes_of
from .plain_tensors import plain_of
from .resume import names_beside, origin_of, seen_by_super
from .settings import NESTING, calls_between, in_force, put_back, putting_back, restored
from .sources import Applied, Local, Made, Source
from .starting_again import Start, Undoing, eagerly, starting_again
from .target import code_of
from .variables.base import Variable
from .variables.functions import Cell
from .variables.held_locals import held_locals
from .variables.lifetimes import acts_as_it_dies
from .variables.placeholders import NULL, resolved
from .variables.reconstruction import CannotReconstruct
from .visits import passing
from .within import Within, interrupted, load_stand_ins

#: Elements of changed inputs that a call keeps copies of, in case its graph raises: more would take longer than many a graph.
_MOST_COPIED = 1 << 12

#: Operations on tensors that no graph holds, made for real with the one at which the graph broke: each is a place where a graph may go on.
_MOST_FOREIGN, _MOST_MAYBE_FOREIGN = 1 << 10, 1 << 4

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclass
class Capture:
    """What became of a frame. ``graph`` is None if there was nothing to compile; ``code`` None: run it eagerly."""

    guards: list[Guard]
    graph: CapturedGraph | None
    code: CodeType | None
    breaks: list[Break] = field(default_factory=list)
    #: The inputs of the graph that live on, and what calls it with them once it is bound to the guards' program.
    lasting: tuple[Source, ...] = ()
    bound: Sequence[_native.BoundGraph] = ()
    #: What the frame hands out unfinished, in words: it runs later.
    suspended: list[str] = field(default_factory=list)
    #: The modules whose parameters and buffers are constants of the graph.
    owners: list[weakref.ref[torch.nn.Module]] = field(default_factory=list)
    #: What was computed for it, of which guards may tell, and nothing else holds.
    own: list[Any] = field(default_factory=list)

    def let_go(self, readings: Iterable[Guard], *, keyed: bool) -> None:
        """Keep but words of the program's objects that are guarded: the guards' program holds what it needs. See ``LettingGo``.

        ``readings`` are what it tells besides.
        """
        letting_go = LettingGo(keyed=keyed)
        letting_go.guards(self.guards)
        letting_go.guards(readings)
        self.lasting = ()
        for sources in () if self.graph is None else (self.graph.sources, self.graph.frozen):
            sources[:] = map(letting_go.source, sources)


def _is_compilers(compiled: Any) -> bool:
    """Whether a backend gives code of a compiler of ours, which sets none of torch's settings; others may run the graph's calls, in a way of theirs."""
    code = code_of(getattr(compiled, "__wrapped__", compiled))
    return code is not None and (is_generated(code) or is_own_file(code.co_filename))


class Replacement:
    """Writes the replacement of one attempt's frame."""

    def __init__(self, attempt: Attempt, *, freeze: bool = False) -> None:
        self._attempt = attempt
        self._freeze = freeze
        self._m = attempt.m
        self._frame = attempt.frame
        self._code = attempt.code
        self._lasting: tuple[Source, ...] = ()
        self._bound: list[_native.BoundGraph] = []
        #: What follows the code where the graph raises.
        self._where_raised: list[Instruction] = []
        self._owners: list[weakref.ref[torch.nn.Module]] = []
        self._foreign: Foreign | None = None

    def write(self, backend: Backend, breaks: list[Break]) -> Capture:
        """Compile the graph, and write the code around it."""
        self._foreign = self._broken_for_kinds(breaks)
        m, frame = self._m, self._frame
        m.recorder.check_handed_on()
        after = {**in_force(), NESTING: self._attempt.before[NESTING] + m.recorder.autocast_nesting_change}
        for function, args in calls_between(after, self._attempt.before):
            m.recorder.graph.call("call_function", function, args, {}, self._attempt.line).meta["val"] = None
        effects = Replay(m.effects, m.globals, self._code.co_cellvars)
        for step, gone in m.effects.let_go():
            if acts_as_it_dies(m, gone):  # between what the program does before and after
                words = f"letting go of a {type(gone).__name__}, which does something when it dies"
                raise Stopped(step, words, self._attempt.line)
        e = Emitter(m, self._code.co_cellvars, names_beside(self._code))
        if self._attempt.finished:
            roots: list[Variable] = [frame.result]
            restored: dict[str, Variable] = {}
            within: list[Within] = []
            live: frozenset[str] = frozenset()
        else:
            live = self._live
            restored = {n: v for n, v in frame.local.items() if n in live}
            cells = [c for n, c in frame.cells.items() if n in self._code.co_cellvars]
            within = [Within(each) for each in self._attempt.suspended[1:]]
            roots = [*frame.stack, *restored.values(), *cells, *self._foreign_cells().values()]
            roots += [v for each in within for v in each.values()]
        handlers = [v for v in roots if isinstance(v, HandlerState)]
        if m.errors.restored is not None:
            roots.append(m.errors.restored)
        e.plan([*roots, *effects.roots()])
        told_of = m.classes.told_of(e.uses)
        e.plan(told_of)
        if not self._attempt.finished:
            held = held_locals(frame, live, e.look)
            restored |= held
            more = [*held.values(), *(v for each in within for v in each.hold(e.look))]
            e.plan(more)
            e.late = {v.source for v in map(resolved, more) if v.source is not None}.intersection(effects.passed())
            e.late -= {v.source for v in map(resolved, roots) if v.source is not None}
            roots += more
        for left in m.calls.unseen_ends(e.uses):
            raise CannotReconstruct(left, f"a {left.word} that is left unfinished, which ends when it goes")
        m.identity.guard_all(m.recorder.graph)
        departures = Departures(m, e.results)
        outputs = list(dict.fromkeys(departures.nodes.get(v.node, v.node) for v in e.results if v.node is not None))
        unread = m.recorder.graph.unread_risks(outputs, self._attempt.line)
        empty = not unread and m.recorder.graph.is_empty(outputs, m.recorder.graph.changes_inputs())
        switches = m.recorder.switches.made
        nothing = (
            empty
            and not effects
            and not switches
            and not calls_between(self._attempt.before, after)
            and not m.state.lost_cell
            and not m.effects.counted  # the interpreter would make these calls a second time
        )
        if nothing and self._attempt.finished:
            return Capture(self._attempt.guards(), None, None, breaks, suspended=e.suspended)
        graph = None
        if not empty:
            graph = self._compile_and_call(e, outputs, unread, departures, backend, breaks, tells=bool(effects))
        for switch in switches if empty else ():
            e.emit(build.call_function(build.load_const(switch)), build.pop())
        for call in m.effects.announced:
            e.emit(build.call_function(build.load_const(call)), build.pop())
        for made in told_of:
            e.load(made)
            e.emit(build.pop())
        e.save_sources = bool(effects)
        if effects or handlers or m.errors.restored is not None:
            e.changed = False
            for root in roots:
                self._preload(e, root.exception if isinstance(root, HandlerState) else root)
            for cell in e.cells:
                if cell.content is not None and cell.name in self._code.co_cellvars:
                    self._preload(e, cell.content)
            effects.emit(e)
            e.all_changed()
        for function, args in calls_between(self._attempt.before, after):
            loads = [build.load_const(a) for a in args]
            quiet = unasked(function) if m.modes.from_outside else function  # they were told as it was evaluated
            e.emit(build.call_function(build.load_const(quiet), *loads), build.pop())
        for call in m.effects.remembered:
            e.emit(build.call_function(build.load_const(call)), build.pop())
        if m.errors.restored is not None:
            e.call_discarding(_native.swap_handled, [m.errors.restored])
        instructions = self._returning(e) if self._attempt.finished else self._breaking(e, restored, within)
        code = self._assembled(instructions)
        guards = self._attempt.guards()  # a backend may have asked about symbolic sizes too
        if graph is not None:
            graph.guards[:] = guards
        return Capture(
            guards, graph, code, breaks, self._lasting, self._bound, e.suspended, self._owners, self._m.builder.own
        )

    def _broken_for_kinds(self, breaks: list[Break]) -> Foreign | None:
        causes = {each.cause.id for each in breaks}
        if not causes.isdisjoint(OF_BLOCKS):
            return Foreign((), 0, block=True)
        if causes.isdisjoint(OF_KINDS | MAYBE_OF_KINDS):
            return None
        most = _MOST_FOREIGN if not causes.isdisjoint(OF_KINDS) else _MOST_MAYBE_FOREIGN
        return Foreign(tuple(map(_native.address, self._m.state.followed)), most)

    def _preload(self, e: Emitter, root: Variable) -> None:
        """Build a value before the effects, so that it is of the state that the program saw."""
        root = resolved(root)
        if root is NULL or id(root) in e.temps or (isinstance(root, Cell) and root.name is not None):
            return
        if id(root) in e.waiting:
            e.waiting.discard(id(root))  # as it may be made of itself
            for part in root.made_of():
                self._preload(e, part)
            e.waiting.add(id(root))
            return
        if root.source is not None:
            e.preload_source(root.source)
            return
        e.load(root)
        name = e.temp()
        e.emit(build.store_fast(name))
        e.temps[id(root)] = name

    def _compile_and_call(
        self,
        e: Emitter,
        outputs: list[fx.Node],
        unread: list[fx.Node],
        departures: Departures,
        backend: Backend,
        breaks: list[Break],
        *,
        tells: bool,
    ) -> CapturedGraph:
        m = self._m
        told = [node.meta["val"] for node in outputs]
        m.recorder.graph.finish([*outputs, *unread])
        if m.recorder.graph.takes_other_ways and not any(self._starts_again(tells=tells)):
            m.effects.ran_ahead.add(STAYS)
            raise EvaluateAgain(STAYS)
        if m.recorder.dynamic_sizes.env.has_open and m.recorder.fake_mode.may_share([*m.recorder.graph.inputs, *told]):
            raise Stopped(
                m.recorder.doubtful, "what it gives may be a copy or not, which sizes of 1 decide", self._attempt.line
            )
        frozen: dict[fx.Node, Frozen] = {}
        unfrozen: list[str] = []
        if self._freeze:
            frozen, unfrozen = what_freezes(m, told)
            for each in frozen.values():
                m.guards.add(each.source, GuardKind.ID, each.tensor)
            tensors = {node: each.tensor for node, each in frozen.items()}
            m.recorder.graph.freeze(tensors, witnesses(m, tensors.values()))
            self._owners = owners(m, tensors.values())
        captured = CapturedGraph(
            m.recorder.graph.module(),
            m.recorder.graph.inputs,
            m.recorder.graph.sources,
            m.recorder.dynamic_sizes.guards(),  # the others later; of these some raise, and no backend is to work in vain
            m.recorder.fake_mode.shape_env,
            breaks,
            [each.source for each in frozen.values()],
            unfrozen,
        )
        with restored():
            # As they are where the graph begins; it may end within a block that changes them.
            put_back(self._attempt.before)
            m.recorder.switches.undo()
            try:
                if m.recorder.graph.laid_out_anew():
                    raise GraphRefused("an input gets other sizes or strides")
                compiled = backend(captured.module, list(captured.inputs))
                as_it_is = getattr(compiled, "__self__", compiled) is captured.module
                if (as_it_is or not _is_compilers(compiled)) and not m.levels.since:
                    compiled = putting_back(compiled, captured.module.graph)
            except GraphRefused as refusal:
                raise self._refused(refusal) from refusal
        compiled = separated(compiled, captured.module, captured.sources, m.recorder.graph.changed_inputs())
        if m.levels.since:  # whatever a backend made of it: that may run the graph's calls as they are
            compiled = leaving_levels(compiled)
        self._call_graph(e, compiled, captured, as_it_is=as_it_is, tells=tells)
        if not outputs:
            e.emit(build.pop())
            return captured
        e.emit(build.unpack_sequence(len(outputs) + len(unread)))
        names: dict[fx.Node, str] = {}
        for node in outputs:
            names[node] = e.temp()
            e.emit(build.store_fast(names[node]))
        for _ in unread:
            e.emit(build.pop())
        for v in e.results:
            if v.node is not None:
                e.temps[id(v)] = name = names[departures.nodes.get(v.node, v.node)]
                departures.write(e, v, name)
        departures.finish(e)
        return captured

    def _call_graph(
        self, e: Emitter, compiled: Callable[..., Any], captured: CapturedGraph, *, as_it_is: bool, tells: bool
    ) -> None:
        """Push what the compiled graph gives. Tensors that live on are not loaded by code: the guards know them.

        ``as_it_is``: it is the captured one. ``tells``: of the frame's changes the graph is not all.
        """
        m, sources = self._m, captured.sources
        graph = m.recorder.graph
        eager = eagerly(captured.module)
        repeats, undoes = self._starts_again(tells=tells)
        if undoes:
            written = [i for i, changed in enumerate(graph.changed_inputs()) if changed]
            compiled = Undoing(compiled, eager, written, graph.generators())
        if (
            m.modes.from_outside
        ):  # they were asked about the program's operations, and have no say in what the graph does
            compiled, eager = unasked(compiled), unasked(eager)
        places = tuple(
            i
            for i, source in enumerate(sources)
            if not isinstance(graph.inputs[i], SYMBOLIC)
            and not isinstance(source, Made)
            and not (isinstance(source, Applied) and source.function is plain_of)  # made for each call
            and m.identity.lives_on(source)
        )
        lasting = set(places)
        brought = [source for i, source in enumerate(sources) if i not in lasting]
        if places:
            self._lasting = tuple(sources[i] for i in places)
            compiled = self._bind(compiled, len(sources), places)
        e.share(brought)
        e.emit(build.push_callable(build.load_const(compiled)))
        for source in brought:
            e.load_source(source)
        call = build.call(len(brought))
        e.emit(call)
        if not (repeats or undoes or m.recorder.sets_state):
            return
        shown = brought if repeats else []
        start: Callable[..., bool] = Start(
            self._attempt.before,
            eager,
            as_it_is=as_it_is,
            repeats=repeats,
            waits=not m.recorder.elsewhere,
        )
        if (
            repeats and places
        ):  # all are told of from here: inputs that live on are read where the frame has its globals
            start = self._bind(start, 1 + len(sources), tuple(1 + place for place in places))
        emitted, e.out = e.out, []
        for source in shown:
            e.load_source(source)
        loads, e.out = e.out, emitted
        made = [i.argval for i in emitted if i.opname == "STORE_FAST"]
        self._where_raised = starting_again(start, call, loads, len(shown), made)

    def _starts_again(self, *, tells: bool) -> tuple[bool, bool]:
        """Whether the frame may start again where the graph raises: since that leaves nothing behind, or takes it back.

        ``tells``: of the frame's changes the graph is not all.
        """
        graph = self._m.recorder.graph
        written = [i for i, changed in enumerate(graph.changed_inputs()) if changed]
        repeats = not (graph.lasts or written or graph.generators())
        return repeats, not repeats and self._undoes(written, tells)

    def _undoes(self, written: Sequence[int], tells: bool) -> bool:
        """Whether what the graph leaves behind is to be taken back where it raises: that can be, and someone sees the difference."""
        graph = self._m.recorder.graph
        risks, changed = graph.risks, [graph.inputs[i] for i in written]
        if not risks or graph.lasts or any(fake.grad_fn is not None for fake in changed):
            return False
        if not tells and not any(node.meta["risk"] for node in risks):
            return False
        # Each call pays for the copies; on a device few of what is raised is of the call that it leaves.
        return not self._m.recorder.elsewhere and sum(hint_of(fake.numel()) for fake in changed) <= _MOST_COPIED

    def _bind(self, graph: Callable[..., Any], total: int, places: tuple[int, ...]) -> _native.BoundGraph:
        self._bound.append(_native.BoundGraph(graph, total, places))
        return self._bound[-1]

    def _refused(self, refusal: GraphRefused) -> Exception:
        """What to do about a backend's refusal: break the graph at the call to blame, or leave the frame alone."""
        call = refusal.call
        step = 0 if call is None else call.meta.get("step", 0)
        if call is None or step < 1:
            return SkipFrame(f"the backend refuses its graph: {refusal.reason}")
        name = call.target if isinstance(call.target, str) else getattr(call.target, "__name__", call.target)
        reason = f"the backend refuses {name}: {refusal.reason}"
        self._m.recorder.refusals.note(call, reason)
        return Stopped(step, reason, call.meta["source"])

    def _returning(self, e: Emitter) -> list[Instruction]:
        e.load(self._frame.result)
        self._write_cells(e)
        if e.leaves_frame:
            self._let_go(e)
        e.emit(build.return_value())
        return e.out

    def _let_go(self, e: Emitter) -> None:
        """Empty what has been put into generated locals."""
        stored = {i.argval for i in e.out if i.opname == "STORE_FAST"}
        for name in e.made:
            if name in stored:
                e.emit(build.delete_fast(name))

    def _write_cells(self, e: Emitter) -> None:
        """Give the frame's own cells, where something refers to them, their content."""
        changed: dict[str, Variable] = {}
        emptied: set[str] = set()
        for cell in e.cells:
            if cell.name is None or cell.name not in self._code.co_cellvars:
                continue
            if cell.content is None:
                emptied.add(cell.name)
            elif not self._unchanged_argument(cell.name, cell.content):
                changed[cell.name] = cell.content
        # All are loaded before the first is changed: one may be made of an argument that another had.
        for content in changed.values():
            e.load(content)
        for name in reversed(changed):
            e.emit(build.store_deref(name))
        for name in argument_names(self._code):
            if name in emptied:
                e.emit(build.delete_deref(name))

    def _unchanged_argument(self, name: str, value: Variable) -> bool:
        """Whether a local still is the frame's argument of that name."""
        source = resolved(value).source
        return isinstance(source, Local) and source.local == name

    @property
    def _live(self) -> frozenset[str]:
        """The locals that may still be read at the break, by ``super()`` too."""
        live = lifetimes_of(self._code).read[self._frame.op.index]
        first = seen_by_super(self._code)
        return live if first is None else live | {first}

    def _foreign_cells(self) -> dict[str, Variable]:
        """The cells that have the places of the frame's own ones within a comprehension, whose variables are in the frame."""
        own = self._frame.own_cells
        return {name: cell for name, cell in self._frame.cells.items() if cell is not own.get(name)}

    def _breaking(self, e: Emitter, restored: dict[str, Variable], within: list[Within]) -> list[Instruction]:
        """Restore stack and locals, run the operation in a copy of the body, call the resume function."""
        frame = self._frame
        for value in frame.stack:
            if value is NULL:
                e.emit([Instruction("PUSH_NULL")])
            else:
                e.load(value)
        if within:
            load_stand_ins(e, frame, within, foreign=self._foreign)
            e.emit(build.store_fast(e.names.own("inner")))
        changed = {n: v for n, v in restored.items() if not self._unchanged_argument(n, v)}
        changed.update(self._foreign_cells())
        for value in changed.values():
            e.load(value)
        self._write_cells(e)
        for name in reversed(changed):
            e.emit(build.store_fast(name))
        for name in argument_names(self._code):
            if self._is_let_go(name, restored):
                e.emit(build.delete_fast(name))
        self._let_go(e)
        return [*e.out, *goes_on(interrupted(frame, frozenset(restored), awaits=bool(within), foreign=self._foreign))]

    def _is_let_go(self, name: str, restored: dict[str, Variable]) -> bool:
        """Whether the variable of an argument is unbound, or has lost and does not get back what nothing else of the program's holds."""
        frame = self._frame
        if name in frame.cells or name in restored:
            return False
        value = frame.local.get(name)
        return value is None or not self._unchanged_argument(name, value)

    def _assembled(self, instructions: list[Instruction]) -> CodeType:
        code = self._code
        head = build.prologue(code.co_cellvars, code.co_freevars)
        # A closure's first instructions have no line; whatever runs here must have one for tracebacks.
        known = [i for i in program_of(code).instructions if i.lineno is not None]
        first = next(i.positions for i in known if origin_of(code) is None or i.opname != "RESUME")
        if self._m.state.visit is not None:
            passed = passing(self._m.state.visit)
            head[-1].positions = known[0].positions
            first = passed[-1].positions or first if passed else first
            head += passed
        for each in (*head, *instructions):
            if each.positions is None:
                each.positions = first
        again: list[Instruction] = []
        if self._where_raised:
            for each in self._where_raised:
                each.positions = first
            program = program_of(code)
            again = [*self._where_raised, *program.instructions[program.entry + 1 :]]
        names = argument_names(code)
        return assemble([*head, *instructions, *again], like=code, argnames=names)
