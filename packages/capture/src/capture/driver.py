"""Capturing one frame: evaluate, and where that ends early, evaluate again up to the break and generate code for it.

In: a frame's function, code, arguments. Out: a ``Capture``: the graph, the guards, and the replacement code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import fx
from torch.autograd import forward_ad

from symshapes import undisturbed_autograd

from . import _native
from ._torch import dispatch_mode_depth
from .aliasing import separated
from .bytecode import Instruction, argument_names, assemble, build, decode, liveness
from .bytecode.dialect import current
from .effects import Effects
from .emit import Emitter
from .errors import CaptureError, GraphBreakError, GraphRefused, NotConstant, SkipCall, SkipFrame, Unsupported
from .evaluator import opcodes as _opcodes
from .evaluator.frame import BreakHere, Frame, check_no_handler_state, run
from .evaluator.machine import Machine
from .evaluator.places import earlier_step
from .evaluator.program import program_of
from .evaluator.refusals import Refusals
from .graph import Break, CapturedGraph
from .guards import GlobalState, Guard, GuardKind
from .resume import continuation, group_end, names_beside, origin_of, plain_form, reachable, stack_after, stub
from .settings import NESTING, calls_between, in_force, put_back, restored
from .sources import Closure, ClosureCell, Local, ModuleGlobal, Source
from .variables.base import NULL, Lazy, Variable, resolved
from .variables.constants import Constant
from .variables.functions import Cell
from .variables.numbers import Symbolic
from .variables.reconstruction import CannotReconstruct
from .variables.signals import SymbolicRaise
from .variables.tensors import Tensor
from .visits import Visit, passing

_REGISTERED = (_opcodes,)
_FRAME_SETUP = frozenset({"MAKE_CELL", "COPY_FREE_VARS", "RESUME", "RETURN_GENERATOR"})
#: Built-ins that read the calling frame's locals; ``vars`` and ``dir`` do without arguments.
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec"})
_NO_FALL_THROUGH_STUB = frozenset({"RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "RETURN_CONST"})

#: A tensor's tangent is nowhere in its metadata; there is none while no level of forward differentiation is entered.
_FORWARD_LEVEL = ModuleGlobal("torch.autograd.forward_ad", "_current_level", vars(forward_ad))
_NO_LEVEL = -1

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclass(frozen=True)
class FrameInput:
    """A frame at entry. ``args`` are the values of ``argument_names(code)``."""

    function: FunctionType
    code: CodeType
    args: tuple[Any, ...]
    globals: dict[str, Any]
    builtins: dict[str, Any]
    #: Whether a tracer watches: the replacement is then to pass the lines that the frame would.
    traced: bool = False


@dataclass
class Capture:
    """What became of a frame. ``graph`` is None if there was nothing to compile; ``code`` None: run it eagerly."""

    guards: list[Guard]
    graph: CapturedGraph | None
    code: CodeType | None
    breaks: list[Break] = field(default_factory=list)
    #: The inputs of the graph that live on, and what calls it with them once it is bound to the guards' program.
    lasting: tuple[Source, ...] = ()
    bound: _native.BoundGraph | None = None


def capture_frame(
    frame: FrameInput, backend: Backend, *, dynamic: bool | None, fullgraph: bool, refusals: Refusals
) -> Capture:
    """Capture; raises ``GraphBreakError`` with ``fullgraph``, ``SkipFrame`` if the frame is to be left alone."""
    if looks_at_its_locals(frame.code):
        raise SkipFrame("it looks at its own local variables (locals, eval, ...)")
    if _FORWARD_LEVEL.namespace[_FORWARD_LEVEL.variable] != _NO_LEVEL:
        raise SkipCall("forward-mode differentiation is on")
    if dispatch_mode_depth():
        # It is to see the program's operations, and neither those on fakes nor kernels in their place.
        raise SkipCall("a mode watches every operation")
    break_at: int | None = None
    reason: Break | None = None
    ways = Ways(refusals)
    ran_ahead: set[Any] = set()
    while True:
        attempt = Attempt(frame, dynamic)
        attempt.m.effects.ran_ahead = ran_ahead
        attempt.m.recorder.refusals = refusals
        attempt.m.state.says_compiling = ways.says_compiling
        with restored(), undisturbed_autograd():
            try:
                attempt.evaluate(break_at)
                if attempt.finished:
                    captured = attempt.finish(backend, [])
                    if fullgraph and attempt.m.effects.suspended:
                        what = attempt.m.effects.suspended[0]
                        raise GraphBreakError(f"it hands out {what}, which runs later", attempt.stopped_line())
                    return captured
                if break_at is None and ways.another(attempt.m):
                    if fullgraph:
                        reason = reason or Break(attempt.reason or "unknown", attempt.stopped_line())
                    continue
                if reason is None:
                    reason = Break(attempt.reason or "unknown", attempt.stopped_line())
                if fullgraph:
                    raise GraphBreakError(reason.reason, reason.user_line)
                before = earlier_step(attempt.m.recorder.placed, attempt.m.state.step)
                if before < attempt.m.state.step:
                    break_at = before
                    continue
                return attempt.finish(backend, [reason])
            except CannotReconstruct as problem:
                step = problem.variable.step
                if step < 1 or (break_at is not None and step >= break_at):
                    raise SkipFrame(f"{problem.why}, and no earlier place to break") from None
                if reason is None:
                    reason = Break(problem.why, attempt.line)
                break_at = step
            except Stopped as stopped:
                if break_at is not None and stopped.step >= break_at:
                    raise SkipFrame(f"evaluation is not repeatable: {stopped.reason}") from None
                reason = reason or Break(stopped.reason, stopped.user_line)
                if ways.another(attempt.m, raised=stopped.raised):
                    break_at, reason = None, reason if fullgraph else None
                    continue
                break_at = earlier_step(attempt.m.recorder.placed, stopped.step)
            except Unsupported as problem:
                raise SkipFrame(problem.reason) from problem
            except CaptureError:
                raise
            except Exception as error:
                error.add_note(f"at {attempt.stopped_line()}")
                raise
            finally:
                attempt.m.release()


def looks_at_its_locals(code: CodeType) -> bool:
    """Whether the frame's local variables may be read as a whole, which a replacement does not keep."""
    if not _FRAME_READERS & set(code.co_names):
        return False
    ops = program_of(code).ops
    for op, following in itertools.pairwise(ops):
        if op.name != "LOAD_GLOBAL" or op.value not in _FRAME_READERS:
            continue
        without_arguments = following.name in ("CALL", "PRECALL") and following.arg == 0
        if without_arguments or op.value in ("eval", "exec"):
            return True
    return False


class Ways:
    """Which way a program is sent that asks whether a compiler traces it.

    First as if one did; where that is not captured whole, as in eager mode; if that is not either, the first way again,
    unless the program itself fails on it. Then no frame captured later is sent it either: half of a program on one way
    and half on the other is neither.
    """

    def __init__(self, learnt: Refusals) -> None:
        self._learnt = learnt
        self.says_compiling = not learnt.fails_traced
        self._tried = 0

    def another(self, m: Machine, *, raised: bool = False) -> bool:
        """After an evaluation that stopped: whether to start again, another way."""
        raised = raised or m.recorder.refused_by_operator
        if self._tried == 0 and m.state.asked_compiling and self.says_compiling:
            self._learnt.fails_traced = raised
        elif self._tried == 1 and self._learnt.fails_traced:
            self._learnt.fails_traced = not raised  # an exception of both ways is the program's own
            return False
        elif self._tried != 1:
            return False
        self._tried += 1
        self.says_compiling = not self.says_compiling
        return True


class Stopped(Exception):
    """Signal: evaluation cannot go past a root step."""

    def __init__(self, step: int, reason: str, user_line: str, *, raised: bool = False) -> None:
        super().__init__(reason)
        self.raised = raised
        self.step = step
        self.reason = reason
        self.user_line = user_line


class Attempt:
    """One evaluation of the frame from its start."""

    def __init__(self, frame: FrameInput, dynamic: bool | None) -> None:
        self.input = frame
        self.code = frame.code
        self.m = Machine(frame.globals, dynamic)
        local: dict[str, Variable] = {
            name: Lazy(value, Local(name)) for name, value in zip(argument_names(self.code), frame.args, strict=True)
        }
        closure: list[Cell] = []
        for name, real in zip(self.code.co_freevars, frame.function.__closure__ or (), strict=True):
            cell = self.m.builder.cell_at(real, Closure(name), ClosureCell(name))
            cell.name = name
            closure.append(cell)
        self.frame = Frame(self.code, frame.globals, frame.builtins, local, closure, is_root=True)
        self.m.state.visit = Visit(self.code, last=_line_before(self.code)) if frame.traced else None
        self.finished = False
        self.reason: str | None = None
        self.lasting: tuple[Source, ...] = ()
        self.bound: _native.BoundGraph | None = None
        self.before = in_force()
        self.m.guards.add(None, GuardKind.GRAD_MODE, torch.is_grad_enabled())
        self.m.guards.add(None, GuardKind.GLOBAL_STATE, GlobalState.now())
        self.m.guards.add(_FORWARD_LEVEL, GuardKind.EQUALS, _NO_LEVEL)

    @property
    def line(self) -> str:
        return self.frame.line()

    def evaluate(self, break_at: int | None) -> None:
        """Run to the end or to the given step; raises ``Stopped`` where it cannot go on."""
        m = self.m
        m.state.break_at = break_at
        try:
            run(m, self.frame)
            self.finished = True
        except BreakHere as here:
            self.reason = here.reason
            origin = check_no_handler_state(self.frame)
            if origin is not None:
                raise Stopped(origin, "a break inside an exception handler", self.line) from None
        except Unsupported as problem:
            raise Stopped(self.stop_step(), problem.reason, self.stopped_line()) from problem
        except NotConstant as problem:
            raise Stopped(self.stop_step(), f"{problem} is not constant", self.stopped_line()) from problem
        except RecursionError as problem:
            raise Stopped(self.stop_step(), "recursion too deep to inline", self.stopped_line()) from problem
        except SymbolicRaise as raised:
            origin = getattr(raised.exception, "origin", -1)
            step = origin if 0 < origin <= m.state.step else m.state.step
            reason = f"the program raises {_described(raised)}"
            raise Stopped(step, reason, self.stopped_line(), raised=True) from None

    def stop_step(self) -> int:
        """The root step that cannot be evaluated; the raising one if that is inside a handler."""
        origin = check_no_handler_state(self.frame)
        return self.m.state.step if origin is None else origin

    def stopped_line(self) -> str:
        return self.m.state.last_line or self.line

    # Generating code

    def finish(self, backend: Backend, breaks: list[Break]) -> Capture:
        """Compile the graph and write the replacement."""
        m, frame = self.m, self.frame
        after = {**in_force(), NESTING: m.recorder.autocast_nesting_change}
        for function, args in calls_between(after, self.before):
            m.recorder.graph.call("call_function", function, args, {}, self.line).meta["val"] = None
        effects = Effects(m, self.code.co_cellvars)
        e = Emitter(m, self.code.co_cellvars, names_beside(self.code))
        if self.finished:
            roots: list[Variable] = [frame.result]
            restored: dict[str, Variable] = {}
        else:
            restored = self.live_locals()
            cells = [c for n, c in frame.cells.items() if n in self.code.co_cellvars]
            roots = [*frame.stack, *restored.values(), *cells]
        e.plan([*roots, *effects.roots()])
        m.identity.guard_all(m.recorder.graph)
        outputs = list(dict.fromkeys(v.node for v in e.results if isinstance(v, Tensor | Symbolic)))
        empty = m.recorder.graph.is_empty(outputs, m.recorder.graph.changes_inputs())
        if empty and self.finished and not effects and not calls_between(self.before, after):
            return Capture(self.guards(), None, None, breaks)
        graph = None
        if not empty:
            graph = self.compile_and_call(e, outputs, backend, breaks)
        e.save_sources = bool(effects)
        if effects:
            for root in roots:
                self.preload(e, root)
            effects.emit(e)
        for function, args in calls_between(self.before, after):
            loads = [build.load_const(a) for a in args]
            e.emit(build.call_function(build.load_const(function), *loads), build.pop())
        for call in m.effects.remembered:
            e.emit(build.call_function(build.load_const(call)), build.pop())
        instructions = self.returning(e) if self.finished else self.breaking(e, restored)
        code = self.assembled(instructions)
        return Capture(self.guards(), graph, code, breaks, self.lasting, self.bound)

    def guards(self) -> list[Guard]:
        """All that must hold for the capture to be used again."""
        shapes = (Guard(None, GuardKind.SHAPE, p) for p in self.m.recorder.dynamic_sizes.predicates())
        return [*self.m.guards.all(), *self.m.classes.all(), *shapes]

    def preload(self, e: Emitter, root: Variable) -> None:
        """Build a value before the effects, so that it is of the state that the program saw."""
        root = resolved(root)
        if root is NULL or id(root) in e.temps or (isinstance(root, Cell) and root.name is not None):
            return
        e.load(root)
        name = e.temp()
        e.emit(build.store_fast(name))
        e.temps[id(root)] = name

    def compile_and_call(
        self, e: Emitter, outputs: list[fx.Node], backend: Backend, breaks: list[Break]
    ) -> CapturedGraph:
        m = self.m
        m.recorder.graph.finish(outputs)
        captured = CapturedGraph(
            m.recorder.graph.module(),
            m.recorder.graph.inputs,
            m.recorder.graph.sources,
            self.guards(),
            m.recorder.fake_mode.shape_env,
            breaks,
        )
        with restored():
            # As they are where the graph begins; it may end within a block that changes them.
            put_back(self.before)
            try:
                if m.recorder.graph.laid_out_anew():
                    raise GraphRefused("an input gets other sizes or strides")
                compiled = backend(captured.module, list(captured.inputs))
            except GraphRefused as refusal:
                raise self.refused(refusal) from refusal
        compiled = separated(compiled, captured.module, captured.sources, m.recorder.graph.changed_inputs())
        # A backend may have asked about symbolic sizes too.
        captured.guards[:] = self.guards()
        self.call_graph(e, compiled, captured.sources)
        if not outputs:
            e.emit(build.pop())
            return captured
        e.emit(build.unpack_sequence(len(outputs)))
        names: dict[fx.Node, str] = {}
        for node in outputs:
            names[node] = e.temp()
            e.emit(build.store_fast(names[node]))
        for v in e.results:
            if isinstance(v, Tensor | Symbolic):
                e.temps[id(v)] = names[v.node]
        return captured

    def call_graph(self, e: Emitter, compiled: Callable[..., Any], sources: Sequence[Source]) -> None:
        """Push what the compiled graph gives. Inputs that live on are not loaded by code: the guards know them."""
        places = tuple(i for i, source in enumerate(sources) if self.m.identity.lives_on(source))
        brought = [source for i, source in enumerate(sources) if i not in set(places)]
        if places:
            self.lasting = tuple(sources[i] for i in places)
            compiled = self.bound = _native.BoundGraph(compiled, len(sources), places)
        e.share(brought)
        e.emit(build.push_callable(build.load_const(compiled)))
        for source in brought:
            e.load_source(source)
        e.emit(build.call(len(brought)))

    def refused(self, refusal: GraphRefused) -> Exception:
        """What to do about a backend's refusal: break the graph at the call to blame, or leave the frame alone."""
        call = refusal.call
        step = 0 if call is None else call.meta.get("step", 0)
        if call is None or step < 1:
            return SkipFrame(f"the backend refuses its graph: {refusal.reason}")
        name = call.target if isinstance(call.target, str) else getattr(call.target, "__name__", call.target)
        reason = f"the backend refuses {name}: {refusal.reason}"
        self.m.recorder.refusals.note(call, reason)
        return Stopped(step, reason, call.meta["source"])

    def returning(self, e: Emitter) -> list[Instruction]:
        e.load(self.frame.result)
        self.write_cells(e)
        e.emit(build.return_value())
        return e.out

    def write_cells(self, e: Emitter) -> None:
        """Give the frame's own cells, where something refers to them, their content."""
        done: set[int] = set()
        for cell in e.cells:
            if id(cell) in done or cell.name not in self.code.co_cellvars or cell.content is None:
                continue
            done.add(id(cell))
            assert cell.name is not None
            if not self.unchanged_argument(cell.name, cell.content):
                e.load(cell.content)
                e.emit(build.store_deref(cell.name))

    def unchanged_argument(self, name: str, value: Variable) -> bool:
        """Whether a local still is the frame's argument of that name."""
        source = resolved(value).source
        return isinstance(source, Local) and source.local == name

    def live_locals(self) -> dict[str, Variable]:
        """The locals that may still be read at the break."""
        frame = self.frame
        live = liveness(program_of(self.code).instructions)[frame.op.index]
        return {n: v for n, v in frame.local.items() if n in live}

    def breaking(self, e: Emitter, restored: dict[str, Variable]) -> list[Instruction]:
        """Restore stack and locals, run the operation in a copy of the body, call the resume function."""
        frame = self.frame
        for value in frame.stack:
            if value is NULL:
                e.emit([Instruction("PUSH_NULL")])
            else:
                e.load(value)
        changed = {n: v for n, v in restored.items() if not self.unchanged_argument(n, v)}
        for value in changed.values():
            e.load(value)
        self.write_cells(e)
        for name in reversed(changed):
            e.emit(build.store_fast(name))
        stored = {i.argval for i in e.out if i.opname == "STORE_FAST"}
        program = program_of(self.code)
        live = liveness(program.instructions)[frame.op.index]
        for name in argument_names(self.code):
            if name in live and name not in frame.local and name not in frame.cells:
                e.emit(build.delete_fast(name))
        for name in e.made:
            if name in stored:
                e.emit(build.delete_fast(name))
        return [*e.out, *self.body(frame.op.index)]

    def body(self, index: int) -> list[Instruction]:
        """The original body from the breaking operation on, with the calls of the resume functions in it."""
        code, frame = self.code, self.frame
        instructions = decode(code)
        plain = decode(code)
        before = [v is not NULL for v in frame.stack]
        end = group_end(instructions, index)
        broken = instructions[end]
        bound = set(frame.local)
        start = instructions[index]
        group = instructions[index : end + 1]
        handled = [i.handler.target for i in group if i.handler is not None]
        kept = [i for i in reachable(instructions, handled) if i.opname not in _FRAME_SETUP]
        follow: list[Instruction] = []
        jumped: list[Instruction] = []
        first_cell = bool(code.co_argcount) and code.co_varnames[0] in code.co_cellvars
        in_resume = origin_of(code) is not None

        def make(target: int, jump: bool) -> list[Instruction]:
            stack = stack_after(plain, index, before, jump)
            then = continuation(code, target, stack, bound)
            return stub(then, frame.globals, names_beside(code), first_cell or _first_is_free(code), in_resume, broken)

        if broken.opname not in _NO_FALL_THROUGH_STUB:
            follow = make(end + 1, False)
        if broken.target is not None:
            target = next(i for i, x in enumerate(instructions) if x is broken.target)
            if broken.opname == "FOR_ITER":
                jumped = [*current().end_for(), *make(target + len(current().end_for()), True)]
            else:
                jumped = make(target, True)
            broken.target = jumped[0]
        step = [*group[:-1], *plain_form(group[-1]), *follow]
        return [*build.jump(start), *_merge(kept, group, step), *jumped]

    def assembled(self, instructions: list[Instruction]) -> CodeType:
        code = self.code
        head = build.prologue(code.co_cellvars, code.co_freevars)
        # A closure's first instructions have no line; whatever runs here must have one for tracebacks.
        known = (i.positions for i in program_of(code).instructions)
        first = next(p for p in known if p is not None and p.lineno is not None)
        if self.m.state.visit is not None:
            passed = passing(self.m.state.visit)
            head[-1].positions = first
            first = passed[-1].positions or first if passed else first
            head += passed
        for each in (*head, *instructions):
            if each.positions is None:
                each.positions = first
        names = argument_names(code)
        return assemble([*head, *instructions], like=code, argnames=names)


def _merge(kept: list[Instruction], group: list[Instruction], step: list[Instruction]) -> list[Instruction]:
    """The handlers' code with the broken step put in front, or in its place if they lead back to it.

    What leads back brings the stack as evaluation has it: with a NULL below each method, never a self.
    """
    members = {id(i) for i in group}
    if not any(id(i) in members for i in kept):
        return [*step, *kept]
    out: list[Instruction] = []
    placed = False
    for instruction in kept:
        if id(instruction) in members:
            if not placed:
                out.extend(step)
                placed = True
        else:
            out.extend(plain_form(instruction))
    return out


def _line_before(code: CodeType) -> int:
    """The line that the frame is in already: of a resume function that goes on in the middle of one."""
    origin = origin_of(code)
    if origin is None or origin.at == 0:
        return 0
    before, here = program_of(origin.code).ops[origin.at - 1 : origin.at + 1]
    return (here.line or 0) if before.line == here.line else 0


def _first_is_free(code: CodeType) -> bool:
    origin = origin_of(code)
    original = code if origin is None else origin.code
    return bool(original.co_argcount) and original.co_varnames[0] in code.co_freevars


def _described(raised: SymbolicRaise) -> str:
    """The exception's class, and its message where that is known."""
    name = raised.exception.python_type().__name__
    args = getattr(raised.exception, "args", [])
    return f"{name}: {args[0]!r}" if args and isinstance(args[0], Constant) else name
