"""The bridge from the frame hook to the evaluator: one session per compiled callable."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from torch import fx

from . import _native, config
from .errors import CaptureError, GraphBreakError, InternalError, SkipFrame
from .evaluator.driver import Capture, FrameInput, capture_frame
from .evaluator.scope import is_infrastructure
from .guards import build_tree
from .report import Trace
from .resume import origin_of

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]

#: Attribute hooks run while guards read their sources; to look at guards for them in turn would not end.
_NEVER_CAPTURED = frozenset({"__getattribute__", "__getattr__", "__del__"})
_OPTIMIZED = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
_SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Session:
    """Answers the hook's question what to do with a frame; collects the report."""

    def __init__(self, backend: Backend, *, dynamic: bool | None, fullgraph: bool) -> None:
        self.backend = backend
        self.dynamic = dynamic
        self.fullgraph = fullgraph
        self.report = Trace()
        self.cache_limit = config.recompile_limit

    def callback(
        self,
        func: FunctionType,
        code: CodeType,
        args: tuple[Any, ...],
        globals: dict[str, Any],
        builtins: dict[str, Any],
    ) -> Any:
        """See ``_native.Session``."""
        if code.co_flags & _SUSPENDING or code.co_flags & _OPTIMIZED != _OPTIMIZED:
            return _native.SKIP
        if code.co_name in _NEVER_CAPTURED:
            return _native.SKIP
        if origin_of(code) is None and is_infrastructure(code.co_filename):
            return _native.SKIP
        self.note_recompile(func, code, args, globals, builtins)
        frame = FrameInput(func, code, args, globals, builtins)
        try:
            captured = capture_frame(frame, self.run_backend, dynamic=self.dynamic, fullgraph=self.fullgraph)
            return self.entry(code, captured)
        except SkipFrame as reason:
            self.report.skipped.append(f"{_where(code)}: {reason}")
            if self.fullgraph:
                raise GraphBreakError(str(reason), _where(code)) from None
            return _native.SKIP
        except GraphBreakError:
            raise
        except Exception as error:
            cause = " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            if config.on_error == "raise":
                if isinstance(error, CaptureError):
                    raise
                raise InternalError(f"capturing {_where(code)}: {cause}") from error
            warnings.warn(f"capture failed, {_where(code)} runs eagerly: {cause}", stacklevel=2)
            self.report.skipped.append(f"{_where(code)}: {cause}")
            return _native.SKIP

    def on_limit(self, code: CodeType) -> None:
        """A code object reached ``config.recompile_limit``: what does not fit runs eagerly from now on."""
        self.report.skipped.append(f"{_where(code)}: more than {self.cache_limit} variants")

    def entry(self, code: CodeType, captured: Capture) -> Any:
        report = self.report
        report.frames += 1
        report.breaks.extend(captured.breaks)
        report.guards.extend(captured.guards)
        if captured.graph is not None:
            report.graphs.append(captured.graph)
        program = build_tree(captured.guards).lower(code)
        # A frame evaluated to its end without a tensor operation has none beneath it either.
        return _native.Entry(program, captured.code, recursive=captured.code is None, info=captured)

    def run_backend(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """The compiled graph, with nothing beneath it captured again."""
        compiled = self.backend(module, inputs)
        return _native.DisabledCallable(compiled)

    def note_recompile(self, func: Any, code: CodeType, args: Any, globals: Any, builtins: Any) -> None:
        """Record which guard of the latest capture did not hold."""
        for entry in _native.entries(code, self)[:1]:
            if entry.guards is not None:
                failed = entry.guards.explain_failure(args, func, globals, builtins)
                self.report.recompiles.append(f"{_where(code)}: {failed}")


def _where(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}"
