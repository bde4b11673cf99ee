"""Calls: of functions known as a whole, of torch operations, and of Python functions, which are inlined; generators' frames."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Container, Iterator
from typing import Any

import torch

from capture._native import address, function_code
from capture.bytecode.dialect import current
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.trace_rules import is_foreign, is_recorded_python, is_transform, module_of, only_reads, wrapped_init
from capture.variables.base import Args, Kwargs, SymbolicRaise, Variable
from capture.variables.classes import Class
from capture.variables.constants import Constant, Known
from capture.variables.exceptions import ExceptionObject
from capture.variables.functions import Function
from capture.variables.generators import SUSPENDS, Suspended, suspended
from capture.variables.handlers import Wrapper, handler_of
from capture.variables.lookups import shown_type
from capture.variables.marks_of_functions import mark_of
from capture.variables.sequences import Tuple
from capture.variables.tensors import Tensor
from symshapes import override_questions

from .errors import ProgramErrors
from .frame import RETURN, YIELD, Evaluation, Frame, resume_with_error, run
from .program import FRAME_READERS, program_of
from .recorder import GraphRecorder
from .repeats import Repeats

#: What a RESUME says that follows the yields of a ``yield from`` and of an ``await``.
_AFTER_DELEGATION = (2, 3)
#: References to a generator's variable while it is finalized: its caller's, that in the list, what counts them (the item of a list,
#: since 3.14 has a call borrow from a local), and our list's. A frame that is resumable keeps what was on its stack as the step began.
_OF_NOTHING_ELSE = 4
#: Objects that a call goes through, each the next one's `__call__`: no program has so many.
_MOST_PASSED = 1000


#: The variable of a class statement that has the class's names, for scopes within, and what hands it to the class; from 3.14 also
#: where only the statement itself looks there.
_CLASS_NAMES, _CLASS_NAMES_CELL = "__classdict__", "__classdictcell__"


class _BoundOnce(dict[str, Variable]):
    """The names of an enumeration's statement: what binds one again is its metaclass's to judge."""

    def __setitem__(self, name: str, value: Variable) -> None:
        if name in self:
            raise Unsupported("an enumeration's name that is bound again")
        super().__setitem__(name, value)


class FunctionCalls:
    """Calls of variables, which ``m`` is handed to."""

    def __init__(self, m: Evaluation, errors: ProgramErrors, recorder: GraphRecorder, repeats: Repeats) -> None:
        self._m = m
        self._errors = errors
        self._recorder = recorder
        self._suspended: list[Suspended] = []
        self._repeats = repeats

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """``function(*args, **kwargs)``."""
        m = self._m
        return function.realize(m).call(m, args, kwargs)

    def call_from(
        self,
        caller: Frame,
        function: Variable,
        args: Args,
        kwargs: Kwargs,
        keeping: Variable | None = None,
        handing: tuple[type[Variable], ...] = (),
    ) -> Variable:
        """The same for an operation of a frame that does nothing more than to push what it gives: the graph may break within.

        Or to push ``keeping``, whatever it gives, which must be None. Calls of all but ``handing`` hold the arguments until they return.
        """
        m = self._m
        function = function.realize(m)
        caller.passed, caller.passed_in = (), caller.op
        caller.hands_over = isinstance(function, handing)
        passed = 0
        while (behind := function.calls_through(m, args, kwargs)) is not None:
            caller.passed += function.passed
            function, args, kwargs = behind
            function = function.realize(m)
            caller.hands_over = caller.hands_over and isinstance(function, handing)
            passed += 1
            if passed > _MOST_PASSED:
                raise Unsupported("calls nested too deep to inline")  # an object that is its own __call__
        if isinstance(function, Class):
            return function.call_from(m, caller, args, kwargs)
        if not isinstance(function, Function):
            return function.call(m, args, kwargs)
        caller.drops = keeping is not None
        if keeping is None:
            return self.call_function(function, args, kwargs, caller)
        caller.push(keeping)
        result = self.call_function(function, args, kwargs, caller)
        caller.stack.pop()
        return result

    def call_function(self, function: Function, args: Args, kwargs: Kwargs, caller: Frame | None = None) -> Variable:
        """A Python function: known as a whole, a torch operation, or inlined."""
        m = self._m
        if function.is_plain:  # of which that is noted already
            return self.inline(function, args, kwargs, caller)
        real = function.real
        m.guards.note_code(function)
        if real is not None and override_questions(real) and m.modes.asks((*args, *kwargs.values())):
            return self.inline(function, args, kwargs, caller)  # it asks whoever overrides
        if real is not None:
            module = module_of(real)
            handler = handler_of(real, module)
            if isinstance(handler, Wrapper):
                told = handler.handler(m, *(function.held(m, name) for name in handler.held), args, kwargs)
                if told is not None:
                    return told
            elif handler is not None:
                return handler(m, args, kwargs)
            marked = mark_of(real)
            if marked is not None:
                m.guards.note_identity(function, real)
                return marked(m, real, args, kwargs)
            recorded = is_recorded_python(real, module)
            name: str = real.__name__
            if recorded and args and vars(torch.Tensor).get(name) is real:
                owner = args[0].realize(m)
                if isinstance(owner, Tensor):
                    return owner.torch_method(m, name, [arg.realize(m) for arg in args[1:]], kwargs)
            if recorded and m.modes.asks((*args, *kwargs.values())):
                return self.inline(function, args, kwargs, caller)  # it asks nobody, but what it calls does
            if recorded and any(self._recorder.has_tensor(v) for v in (*args, *kwargs.values())):
                return m.recorder.record("call_function", real, args, kwargs)
            of_autograd = f"{module}.".startswith("torch.autograd.")
            if of_autograd:
                m.recorder.note_places(*args, *kwargs.values())
            if _is_apart(real, module):
                init = wrapped_init(real)
                if init is not None:
                    return self.call(m.builder.known(init), args, kwargs)
                raise Unsupported(f"call of {module}.{real.__qualname__}")
            function.is_plain = handler is None and not recorded and not of_autograd
        return self.inline(function, args, kwargs, caller)

    def inline(self, function: Function, args: Args, kwargs: Kwargs, caller: Frame | None = None) -> Variable:
        """Evaluate the function's body in a frame of its own, into the same graph; see ``call_from`` for ``caller``."""
        m = self._m
        code = function.code
        program = program_of(code)
        if program.why_apart is not None:
            raise Unsupported(program.why_apart)
        suspends = code.co_flags & SUSPENDS
        # A tracer is to see each line once, in frames as they would be; a generator's frame is entered again and again.
        again = m.state.visit is not None or suspends
        resumable = caller is not None and caller.resumable and not again and not program.hides_cells
        # A function transform runs as a whole, or not at all.
        resumable = resumable and not is_transform(function.globals.get("__name__", ""))
        may_repeat = args and not suspends and self._repeats.is_on
        begun = self._repeats.begin(function, args, kwargs, resumable) if may_repeat else None
        if isinstance(begun, Variable):
            return begun
        bound = function.bind(m, args, kwargs)
        builtins = self._builtins_of(function)
        frame = Frame(code, function.globals, builtins, bound, function.closure, resumable=resumable, program=program)
        if resumable and caller is not None and not caller.hands_over:
            frame.given = (*args, *kwargs.values())
        if resumable and program.is_library and caller is not None and not caller.program.is_library:
            frame.extent = self._recorder.extent
        if suspends:
            if code.co_flags & ~inspect.CO_GENERATOR & SUSPENDS:
                self._check_origins()
            made: Suspended = m.effects.created(suspended(frame, function, (args, kwargs)))
            made.watched = m.state.visit is not None
            self._suspended.append(made)
            return made
        signal = run(m, frame)
        assert signal == RETURN
        if begun is not None:
            self._repeats.end(begun, frame.result)
        return frame.result

    def _check_origins(self) -> None:
        """Coroutines are not told where they were made, which no generated code could say again."""
        if sys.get_coroutine_origin_tracking_depth():
            raise Unsupported("a coroutine, while the interpreter notes where they are made")
        self._m.guards.add(None, GuardKind.ANSWER, (sys.get_coroutine_origin_tracking_depth, (), 0))

    def class_body(self, function: Function, *, once: bool) -> dict[str, Variable]:
        """Evaluate the function of a class statement; what it puts into the class, in order; each name ``once``, or it is refused."""
        m, code = self._m, function.code
        if FRAME_READERS & set(code.co_names):
            raise Unsupported("a class whose statement looks at its own names")
        frame = Frame(code, function.globals, self._builtins_of(function), {}, function.closure)
        frame.names = _BoundOnce() if once else {}
        try:
            run(m, frame)
        except SymbolicRaise:  # its traceback has the statement's own frame
            raise Unsupported("a class statement that raises") from None
        if not any(_CLASS_NAMES in each.co_freevars for each in code.co_consts if isinstance(each, types.CodeType)):
            frame.names.pop(_CLASS_NAMES_CELL, None)  # the statement alone looked into it
        return frame.names

    def _builtins_of(self, function: Function) -> dict[str, Any]:
        """Those that it was made with, whatever its globals say now."""
        builtins: Any = getattr(function.real, "__builtins__", None) or function.globals.get("__builtins__")
        if isinstance(builtins, types.ModuleType):
            builtins = vars(builtins)
        return builtins or {}

    def resume_generator(
        self, frame: Frame, sent: Variable | None, error: SymbolicRaise | None
    ) -> tuple[bool, Variable]:
        """Continue a generator's frame; (whether it yielded, the value)."""
        m = self._m
        slots = self._errors.slots
        slots.append(frame.handled)
        try:
            if error is not None:
                self._chain(frame, error.exception)
                resume_with_error(m, frame, error)
            elif sent is not None:
                frame.push(sent)
            signal = run(m, frame)
        finally:
            frame.handled = slots.pop()
        return signal == YIELD, frame.result

    def _chain(self, frame: Frame, thrown: Variable) -> None:
        """What was raised elsewhere has for its context what is being handled where it is thrown."""
        if frame.handled is not None and isinstance(thrown, ExceptionObject):
            thrown.context = self._errors.handling(thrown) or thrown.context

    def unseen_ends(self, handed_out: Container[int]) -> Iterator[Suspended]:
        """What the program began and left, by identity not among what it hands out, and would notice the end of."""
        m = self._m
        for each in self._suspended:
            if address(each) in handed_out:
                continue
            before = m.effects.changes
            self._end(each)
            if m.effects.changes != before or each.warns_unused:
                yield each

    def finalize(self, only: list[Variable], *, was_on_stack: bool = False) -> None:
        """The program let go of the one value in a list, which is the end of a generator that nothing else has."""
        others = sys.getrefcount(only[0]) - _OF_NOTHING_ELSE - (was_on_stack and self._m.state.frame.resumable)
        value = only[0]
        if isinstance(value, Suspended) and value in self._suspended and others <= 0:
            if value.warns_unused:
                raise Unsupported(f"a {value.word} that was never awaited, of which the interpreter complains")
            self._suspended.remove(value)
            self._end(value)

    def _end(self, value: Suspended) -> None:
        if value.started and not value.finished:
            try:
                value.close(self._m)
            except SymbolicRaise:
                raise Unsupported(f"a {value.word} that raises as it ends unseen") from None

    @property
    def suspended(self) -> int:
        """How many generators and the like were made, and have not been seen to die."""
        return len(self._suspended)

    def release(self) -> None:
        """Let go of the program's objects."""
        self._suspended.clear()

    def delegate_of(self, frame: Frame) -> Variable | None:
        """What a suspended generator's frame waits for in a ``yield from`` or ``await``; None if it waits in neither."""
        resumed = frame.program.ops[frame.ip] if frame.ip else None
        waits = resumed is not None and resumed.name == "RESUME" and resumed.arg & 3 in _AFTER_DELEGATION
        return frame.stack[-1].realize(self._m) if waits else None

    def end_delegation(self, frame: Frame, value: Variable) -> None:
        """Go on after a ``yield from`` or ``await`` that a frame is suspended in, as if it had come to this value."""
        back = next(op for op in frame.program.ops[frame.ip :] if op.target >= 0)
        if current().send_pops:
            frame.stack.pop()
        frame.push(value)
        frame.ip = frame.program.ops[back.target].target

    def exception_of(self, what: Variable, refusal: str) -> Variable:
        """The exception object that ``raise X`` means; ``refusal`` begins what is said of anything else."""
        m = self._m
        what = what.realize(m)
        if isinstance(what, Known) and isinstance(what.value, type) and issubclass(what.value, BaseException):
            return self._instance(what, None)
        if not issubclass(what.python_type(), BaseException):
            m.errors.throw(TypeError, f"{refusal} BaseException")
        return what

    def thrown(self, args: Args) -> Variable:
        """The exception object that ``throw(X)`` means, or ``throw(class, value, traceback)``."""
        m = self._m
        if len(args) > 1 and sys.version_info >= (3, 12):
            raise Unsupported("throw() with more than an exception, which warns")
        what, value, traceback = (*args, Constant(None), Constant(None))[:3]
        what, value, traceback = what.realize(m), value.realize(m), traceback.realize(m)
        if not m.builder.is_none(traceback) and not issubclass(traceback.python_type(), types.TracebackType):
            m.errors.throw(TypeError, "throw() third argument must be a traceback object")
        if isinstance(what, Known) and isinstance(what.value, type) and issubclass(what.value, BaseException):
            return self._instance(what, value)
        if not issubclass(what.python_type(), BaseException):
            words = "exceptions must be classes or instances deriving from BaseException, not "
            m.errors.throw(TypeError, words + shown_type(what.python_type()))
        if not m.builder.is_none(value):
            m.errors.throw(TypeError, "instance exception may not have a separate value")
        return what

    def _instance(self, cls: Known, given: Variable | None) -> Variable:
        """An exception of a class: ``given`` is that one, a tuple holds arguments, None says that there are none."""
        m = self._m
        if given is not None and issubclass(given.python_type(), cls.value):
            return given
        if isinstance(given, Tuple):
            args = list(given.items)
        else:
            args = [] if given is None or m.builder.is_none(given) else [given]
        made = self.call(cls, args, {}).realize(m)
        if not issubclass(made.python_type(), BaseException):
            raise Unsupported("a class of exceptions that makes something else")
        return made

    def understood(self, value: types.FunctionType) -> bool:
        """Whether a function is known as a whole: which one it is counts, not what it runs."""
        module = module_of(value)
        return handler_of(value, module) is not None or is_recorded_python(value, module) or _is_apart(value, module)


def _is_apart(function: types.FunctionType, module: str) -> bool:
    """Whether a function is not evaluated since it belongs to other machinery, and does more than look at that."""
    return is_foreign(module) and not only_reads(function_code(function))
