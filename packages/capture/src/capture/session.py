"""The bridge from the frame hook to the evaluator: one session per compiled callable."""

from __future__ import annotations

import functools
import importlib
import inspect
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FunctionType, TracebackType
from typing import Any, NamedTuple, NoReturn

from torch import fx

from symshapes import MarkError, TraceSpoiled, collection_held_back, finalizers_outside_modes, phase

from . import _native, _torch, config
from ._torch import hide_from_torch_compile
from .attempt import FrameInput
from .bytecode import argument_names
from .driver import capture_frame
from .errors import (
    CaptureError,
    GraphBreakError,
    GraphRefused,
    InternalError,
    RecompileError,
    SkipCall,
    SkipFrame,
)
from .evaluator.classes import dissolve_prototypes
from .evaluator.refusals import Refusals
from .frozen import release_with
from .graph import CapturedGraph
from .guards import build_tree, guard_program
from .history import Histories
from .identity_map import IdentityMap
from .interruptions import cut_short, interrupted, interruptions_outside
from .language import replaced_builtin
from .ledger import Ledger
from .notices import tell, warnings_kept_from_raising
from .once import WHY, runs_once
from .replacement import Capture
from .report import Failure, Trace, newly_dynamic
from .resume import origin_of
from .sources import FrameValues
from .stance import stance_in_force
from .target import code_of
from .tensor_attributes import replaced_attribute
from .trace_rules import file_of, is_infrastructure
from .tracebacks import note_replacement, without_ours

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]

#: Attribute hooks run while guards read their sources; to look at guards for them in turn would not end.
_NEVER_CAPTURED = frozenset({"__getattribute__", "__getattr__", "__del__"})
#: What torch calls for an operation of a subclass, or under a mode, takes that for one operation, whatever it does.
_OVERRIDES = frozenset({"__torch_function__", "__torch_dispatch__"})
#: What `torch.compiler.disable` puts around a function, in torch's code: what the function calls is kept from compilers, too.
_KEPT_OUT = "DisableContext.__call__.<locals>._fn"
#: What runs while a module is imported is run once.
_IMPORTING = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
#: Functions whose frames are left and entered again; the first flag that fits names the kind.
_SUSPENDING = {
    inspect.CO_ASYNC_GENERATOR: "an asynchronous generator",
    inspect.CO_COROUTINE: "a coroutine",
    inspect.CO_GENERATOR: "a generator",
}


class _KeptOut(NamedTuple):
    """How a frame is answered that is not for capturing, and what is told of its code, if anything. Made where built-ins may be the program's."""

    mark: Any
    why: str = ""
    warns: bool = False


class Session:
    """Answers the hook's question what to do with a frame; collects the report.

    ``root`` is the code of the function that was compiled: of it the user is told even what goes without saying of others.
    Sessions of one ``group`` (any object, None is none) capture alike: what one captured serves the others, too.
    They share ``histories``: what changes for one is symbolic for the others, but for what is of one module.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        dynamic: bool | None,
        fullgraph: bool,
        freeze: bool = False,
        root: CodeType | None = None,
        group: object = None,
        histories: Histories | None = None,
    ) -> None:
        self.backend = backend
        self.dynamic = dynamic
        self.fullgraph = fullgraph
        self.freeze = freeze
        self.root = root
        self.group = group
        self.report = Trace()
        self.ledger = Ledger(self.report)
        self.cache_limit = config.recompile_limit
        # Long enough for most captures; an end to it, since a capture may need what a waiting thread holds.
        self.longest_wait = 60.0
        self.refusals = Refusals()
        self.histories = histories or Histories()
        self.refused = False
        #: Told of each frame that is captured, if set.
        self.watch: Callable[[CodeType, Capture], None] | None = None
        #: Why a code is left to the interpreter.
        self.left: IdentityMap[CodeType, str] = IdentityMap()

    def __del__(self, forget: Callable[[Any], None] = _native.forget_session) -> None:
        forget(self)  # at once, and not when another comes: as garbage many may wait that hold graphs

    def callback(
        self,
        func: FunctionType,
        code: CodeType,
        args: tuple[Any, ...],
        globals: dict[str, Any],
        builtins: dict[str, Any],
    ) -> Any:
        """See ``_native.Session``."""
        before = _torch.InForce.now()
        try:
            modes = _torch.followed_modes()
            with collection_held_back(), interruptions_outside():  # until most of what is made is gone again
                return self.answer(FrameInput(func, code, args, globals, builtins, _native.is_traced(), modes))
        except BaseException:
            # An interrupt may fall between entering a mode and the block that leaves it.
            before.restore()
            raise

    def answer(self, frame: FrameInput) -> Any:
        """What to do with a frame: an entry, a mark, or None."""
        code = frame.code
        kept_out = self._kept_out(frame)
        if kept_out is not None:
            if kept_out.why:
                self.leave(code, kept_out.why, warn=kept_out.warns)
            return kept_out.mark
        # Those with constants serve one module each; what comes after serves all.
        freeze = self.freeze and len(_native.entries(code, self)) < self.cache_limit // 2
        failed, before = self.failed_guard(frame), self.latest(code)
        stance = stance_in_force()
        if stance != "default":
            if stance == "fail_on_recompile" and self.left.get(code) is None:
                raise RecompileError(f"{where(code)} would be captured: {failed or 'nothing was captured so far'}")
            return None
        try:
            with (
                _torch.stood_in_for(frame.modes),
                warnings_kept_from_raising(),
                finalizers_outside_modes(),
                phase("capture"),
            ):
                origin = origin_of(code)
                beneath = (code if origin is None else origin.code) is not self.root
                backend = functools.partial(self.run_backend, beneath=beneath)
                captured = capture_frame(
                    frame,
                    backend,
                    dynamic=self.dynamic,
                    fullgraph=self.fullgraph,
                    refusals=self.refusals,
                    history=self.histories.of(code, frame.args, frame.function),
                    freeze=freeze,
                )
                if self.freeze and not freeze and captured.graph is not None:
                    captured.graph.unfrozen.append(
                        "all: more captures of this code with constants would reach its limit"
                    )
                if failed is not None:
                    failed = replace(failed, freed=newly_dynamic(before, captured.graph))
                return self.entry(code, captured, frame.traced, failed)
        except SkipCall as reason:
            self.leave(code, str(reason), warn=False)
            return None
        except SkipFrame as reason:
            self.leave(code, str(reason), failed=failed)
            return _native.SKIP
        except GraphBreakError:  # the user asked for what is not so
            raise
        except MarkError as error:  # as well, and where this was found out says nothing
            raise error.with_traceback(None) from None
        except RecursionError as error:
            # The program is close to its limit: another call may have room.
            self.leave(code, f"no room on the stack to capture it ({error})", warn=False)
            return None
        except TraceSpoiled as reason:
            self.leave(code, str(reason), warn=False)
            return None
        except Exception as error:
            if cut_short():
                raise
            cause = " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            if self.fullgraph:
                raise GraphBreakError(f"capture failed: {cause}", where(code)) from error
            if config.on_error == "raise":
                if isinstance(error, CaptureError):
                    raise
                raise InternalError(f"capturing {where(code)}: {cause}") from error
            self.leave(code, f"capture failed: {cause}", failed=failed)
            return _native.SKIP
        finally:
            dissolve_prototypes()

    def _kept_out(self, frame: FrameInput) -> _KeptOut | None:
        """What to do with a frame that is not for capturing, for good or as things are; None for others."""
        code = frame.code
        if code.co_name in _NEVER_CAPTURED:
            return _KeptOut(_native.SKIP)
        if code.co_name in _OVERRIDES:
            return _KeptOut(_native.SKIP_RECURSIVE)
        if origin_of(code) is None and is_infrastructure(file_of(code, frame.globals)):
            with_its_calls = code.co_qualname == _KEPT_OUT or code is _IMPORTING
            return _KeptOut(_native.SKIP_RECURSIVE if with_its_calls else _native.SKIP)
        if code is not self.root and runs_once(code):
            return _KeptOut(_native.SKIP_RECURSIVE, WHY)
        kind = next((kind for flag, kind in _SUSPENDING.items() if code.co_flags & flag), None)
        if kind is not None:
            return _KeptOut(_native.SKIP, f"it is {kind}, which runs in the interpreter", warns=code is self.root)
        watcher = _torch.watcher_in_force()
        if watcher:  # it would see what capturing does, and not what kernels do
            return _KeptOut(None, watcher)
        replaced = replaced_builtin()
        if replaced is not None:  # all that follows, of ours and of the library, computes with it
            return _KeptOut(None, f"the program put something else in the place of the built-in {replaced}")
        attribute = replaced_attribute()
        if attribute is not None:
            why = f"the program put something else in the place of torch.Tensor.{attribute}"
            return _KeptOut(None, why, warns=True)
        return None

    def leave(self, code: CodeType, reason: str, *, warn: bool = True, failed: Failure | None = None) -> None:
        """Note that a code object is left to the interpreter, once; with ``fullgraph`` that is an error.

        ``failed``: why what was captured of it does not do.
        """
        if cut_short():  # which says nothing of the code
            return
        if self.fullgraph and code is self.root:
            raise GraphBreakError(reason, where(code))
        if self.left.get(code) == reason:
            return
        self.left[code] = reason
        recompiles = [] if failed is None else [f"{where(code)}: {failed}"]
        self.ledger.tell(code, recompiles=recompiles, skipped=[f"{where(code)}: {reason}"])
        if warn:
            tell(f"{where(code)} runs eagerly: {reason}", code)

    def on_shared(self, code: CodeType, entry: _native.Entry) -> None:
        """A capture of another session of the group serves this one."""
        self.report.shared += 1
        captured: Capture | None = entry.info  # the collector may have been here
        if captured is not None:
            if self.watch is not None:
                self.watch(code, captured)
            graphs = [captured.graph] if captured.graph is not None else []
            self.ledger.tell(captured, graphs=graphs, breaks=captured.breaks)

    def on_limit(
        self,
        func: FunctionType,
        code: CodeType,
        args: tuple[Any, ...],
        globals: dict[str, Any],
        builtins: dict[str, Any],
    ) -> None:
        """A code object reached ``config.recompile_limit``: what does not fit runs eagerly from now on."""
        failed = self.failed_guard(FrameInput(func, code, args, globals, builtins))
        why = f"; the guard that failed last: {failed}" if failed else ""
        if sum(entry.code is not None for entry in _native.entries(code, self)) < self.cache_limit:
            self.leave(
                code, f"many variants were looked at, none has anything to compile, and none fits{why}", warn=False
            )
            return
        self.leave(code, f"{self.cache_limit} variants were captured (config.recompile_limit) and none fits{why}")

    def on_depth(self, code: CodeType, reason: str) -> None:
        """A frame is run without the hook, and so are those beneath it."""
        self.leave(code, reason, warn=False)

    def on_misfit(self, code: CodeType, guard: str) -> None:
        """A capture's guard does not hold for the very call that it was made for; not our fault if the program changed things meanwhile."""
        if interrupted():
            return
        self.leave(code, f"a guard does not hold for the very call it was made for ({guard})")

    def trimmed(self, traceback: TracebackType) -> TracebackType:
        """What users see of an exception's way."""
        return without_ours(traceback)

    def on_broken_promise(self, code: CodeType | None, reason: str) -> NoReturn:
        """A callable that was to be captured whole would run in the interpreter."""
        at = code or self.root
        if code is not None:
            reason = self.left.get(code) or reason
        raise GraphBreakError(reason, "" if at is None else where(at))

    def entry(self, code: CodeType, captured: Capture, traced: bool, failed: Failure | None) -> Any:
        """What the native code keeps for a capture: the guards as a program, the code to run instead, and what it depends on.

        ``failed``: why the one before did not do.
        """
        self.report.frames += 1
        self.ledger.tell(
            captured,
            graphs=[] if captured.graph is None else [captured.graph],
            guards=captured.guards,
            breaks=captured.breaks,
            recompiles=[] if failed is None else [f"{where(code)}: {failed}"],
        )
        if self.watch is not None:
            self.watch(code, captured)
        if captured.code is not None:
            note_replacement(captured.code, code)
            hide_from_torch_compile(captured.code)
        with phase("guards"):
            tree = build_tree(captured.guards)
            program = guard_program(tree, code, captured.lasting, told_later=True)
            for bound in captured.bound:
                bound.bind(program)
            captured.let_go(tree.readings, keyed=tree.keyed)
        if captured.owners and captured.graph is not None:
            drop = functools.partial(_drop, weakref.ref(code), weakref.ref(captured))
            release_with(captured.owners, captured.graph, drop)
        # A frame captured to its end has nothing beneath it that is left to capture.
        return _native.Entry(program, captured.code, recursive=not captured.breaks, info=captured, traced=traced)

    def run_backend(self, module: fx.GraphModule, inputs: list[Any], *, beneath: bool) -> Callable[..., Any]:
        """The compiled graph, with nothing beneath it captured again.

        ``beneath``: the frame is not the compiled function's own. Whoever calls just that frame again runs it eagerly.
        """
        module.meta["beneath"] = beneath
        try:
            with phase("backend"):
                compiled = self.backend(module, inputs)
        except GraphRefused as refusal:
            if not self.refused and self.root is not None and not self.fullgraph:
                tell(
                    f"parts of {where(self.root)} run eagerly: the backend refuses a graph: {refusal.reason}", self.root
                )
            self.refused = True
            raise
        except GraphBreakError as error:  # of something that the backend called, not of this capture
            raise InternalError(f"the backend: {error}") from error
        entered = code_of(compiled)
        if entered is not None:
            hide_from_torch_compile(entered, beneath=True)
        return _native.DisabledCallable(compiled)

    def latest(self, code: CodeType) -> CapturedGraph | None:
        """The graph of the entry used last."""
        for entry in _native.entries(code, self)[:1]:
            captured: Capture | None = entry.info
            return None if captured is None else captured.graph
        return None

    def failed_guard(self, frame: FrameInput) -> Failure | None:
        """The guard of the entry used last that the frame's values fail, and what they are instead."""
        func, code, args, globals, builtins = frame.function, frame.code, frame.args, frame.globals, frame.builtins
        for entry in _native.entries(code, self)[:1]:
            if entry.guards is None:
                return None
            text = entry.guards.explain_failure(args, func, globals, builtins)
            if text is None:
                return None
            values = FrameValues(dict(zip(argument_names(code), args, strict=True)), globals, builtins, func)
            for guard in entry.info.guards:
                if str(guard) == text:
                    return Failure(guard.failure(values), guard.user_line)
            return Failure(text)
        return None


def _drop(code: weakref.ref[CodeType], captured: weakref.ref[Capture]) -> None:
    """Drop a capture that no call can ask for again."""
    at, info = code(), captured()
    if at is not None and info is not None:
        _native.drop_entries(at, info)


def where(code: CodeType) -> str:
    """A code object in words."""
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}"


#: What the hook calls.
for _asked in (
    Session.callback,
    Session.on_shared,
    Session.on_limit,
    Session.on_depth,
    Session.on_misfit,
    Session.on_broken_promise,
):
    hide_from_torch_compile(_asked.__code__, beneath=True)
hide_from_torch_compile(Session.trimmed.__code__, beneath=True)
