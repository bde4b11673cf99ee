"""Programs that change what is being looked at while it is looked at; collection and destructors at every step."""

import gc
import signal
import sys
import threading
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import capture
from capture import _native, _torch
from capture.bytecode import argument_names, assemble, decode


class Session:
    cache_limit = 8
    group = None
    longest_wait = 1.0

    def __init__(self, *instructions, registers=1):
        self.instructions, self.registers = instructions, registers
        self.asked = 0

    def callback(self, func, code, args, globals, builtins):
        self.asked += 1
        guards = _native.GuardProgram(self.instructions, ["text"], self.registers)
        return _native.Entry(guards, assemble(decode(code), like=code, argnames=argument_names(code)))

    def on_limit(self, *frame):
        pass

    def on_misfit(self, *told):
        pass


class Key:
    """A key whose comparison does something."""

    def __init__(self, name, act=None):
        self.name, self.act = name, act

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        if self.act is not None:
            self.act()
        return self.name == getattr(other, "name", other)


def keys_program(*keys):
    return _native.GuardProgram([("local", 0, -1, 0, None, 0), ("dict_keys", -1, 0, 0, keys, 0)], ["keys"], 1)


def test_a_key_that_moves_its_dictionary_on():
    """Each comparison takes one key out and puts another in: the size stays, the iteration would never end."""

    class Equal(Key):
        __hash__ = Key.__hash__

        def __eq__(self, other):
            made.append(Equal(str(len(made))))
            dictionary.pop(next(iter(dictionary)))
            dictionary[made[-1]] = 0
            return True

    made = [Equal(str(i)) for i in range(4)]
    dictionary = dict.fromkeys(made)
    assert keys_program(*[Equal(str(i)) for i in range(4)]).check((dictionary,)) is False
    assert len(made) <= 8


def test_a_key_that_empties_its_dictionary():
    dictionary = {Key("a", lambda: dictionary.clear()): 1, Key("b"): 2}
    assert keys_program(Key("a"), Key("b")).check((dictionary,)) is False
    item = [("local", 0, -1, 0, None, 0), ("key", 1, 0, 0, Key("a"), 0)]
    dictionary = {Key("a", lambda: dictionary.clear()): object()}
    assert _native.GuardProgram(item, ["item"], 2).check((dictionary,)) is False


def test_defaults_that_vanish_while_they_are_read():
    def function(*, name=1):
        return name

    def vanish():
        function.__kwdefaults__ = None
        gc.collect()

    function.__kwdefaults__ = {Key("name", vanish): [1, 2, 3]}
    read = [("local", 0, -1, 0, None, 0), ("kwdefault", 1, 0, 0, "name", 0), ("len", -1, 1, 3, None, 0)]
    assert _native.GuardProgram(read, ["default"], 2).check((function,)) is True
    assert function.__kwdefaults__ is None


@pytest.mark.parametrize("what", ["reset_code", "reset", "call", "collect"])
def test_a_comparison_that_acts_on_the_cache(what):
    def function(x):
        return len(x)

    depth = 0

    def act():
        nonlocal depth
        if what == "reset":
            _native.reset()
        elif what == "reset_code":
            _native.reset_code(function.__code__)
        elif what == "collect":
            gc.collect()
        elif depth < 3:
            depth += 1
            compiled(dictionary)
            depth -= 1

    session = Session(("local", 0, -1, 0, None, 0), ("dict_keys", -1, 0, 0, (Key("a"), Key("b")), 0))
    compiled = _native.CompiledCallable(function, session)
    dictionary = {Key("a", act): 1, Key("b", act): 2}
    for _ in range(5):
        assert compiled(dictionary) == 2
    assert not _native.is_active() and _native.stats()["wanted"] == 0


def test_guards_are_not_captured():
    """What they run of Python is nobody's call."""

    class Owner:
        @property
        def size(self):
            seen.append(_native.is_active())
            return 3

    def function(x):
        return x

    seen = []
    session = Session(
        ("local", 0, -1, 0, None, 0), ("attr", 1, 0, 0, "size", 0), ("equals", -1, 1, 0, 3, 0), registers=2
    )
    compiled = _native.CompiledCallable(function, session)
    owner = Owner()
    assert compiled(owner) is compiled(owner) is owner
    assert seen == [False, False] and session.asked == 1


def test_specifications_are_collected():
    def make():
        class Mine(torch.Tensor):
            pass

        Mine.spec = _native.TensorSpec(
            Mine, torch.float32, torch.device("cpu"), torch.strided, False, (1,), None, None, None
        )
        return weakref.ref(Mine)

    alive = make()
    gc.collect()
    assert alive() is None


def test_every_native_type_that_holds_objects_is_collected():
    holding = [type_ for type_ in vars(_native).values() if isinstance(type_, type)]
    holding = [
        type_ for type_ in holding if type_ not in (_native.Mark, _native.Record)
    ]  # which have no fields themselves
    assert {each.__name__ for each in holding} == {
        "BoundGraph",
        "CompiledCallable",
        "DisabledCallable",
        "Entry",
        "GuardProgram",
        "Place",
        "TensorSpec",
    }
    assert all(each.__flags__ & (1 << 14) for each in holding)  # Py_TPFLAGS_HAVE_GC


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x, scale):
        return torch.relu(self.linear(x)) * scale


def test_collection_at_every_step():
    layer = Layer()
    x = torch.randn(2, 3)
    expected = [layer(x, s) for s in (1, 2.0, 3)]
    before = gc.get_threshold()
    compiled = capture.compile(layer)
    gc.set_threshold(1)
    try:
        for _ in range(2):
            assert all(torch.equal(compiled(x, s), e) for s, e in zip((1, 2.0, 3), expected, strict=True))
            _native.reset()
    finally:
        gc.set_threshold(*before)


def test_destructors_that_call_compiled_functions():
    """While entries are dropped, by a reset or with their session."""

    def function(x):
        return x + 1

    class Info:
        def __del__(self):
            calls.append(other(1))

    calls, information = [], []

    class Holding(Session):
        def callback(self, *frame):
            entry = super().callback(*frame)
            entry.info = Info()
            information.append(weakref.ref(entry.info, lambda _: calls.append(other(2))))
            return entry

    other = _native.CompiledCallable(lambda x: x + 10, Session())
    for drop in (_native.reset, lambda: _native.reset_code(function.__code__), lambda: None):
        compiled = _native.CompiledCallable(function, Holding())
        assert compiled(1) == 2
        drop()
        assert compiled(1) == 2
        del compiled
    _native.reset()
    gc.collect()
    assert len(calls) == 2 * len(information) and set(calls) == {11, 12}


def test_reset_while_other_threads_call():
    def function(x):
        return x + 1

    compiled = _native.CompiledCallable(function, Session(("local", 0, -1, 0, None, 0), ("type", -1, 0, 0, int, 0)))
    errors, stop = [], threading.Event()

    def call():
        try:
            while not stop.is_set():
                assert compiled(1) == 2
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=call) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(300):
            _native.reset()
            gc.collect(0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not errors


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # some interrupts meet a finalizer
def test_signals():
    """A handler that calls a compiled function, and one that raises: in captures, guards and calls."""

    def function(x):
        return torch.sin(x) + 1

    class Interrupt(BaseException):
        pass

    def handle(*_):
        n = len(handled)
        handled.append(inner(n) == n + 1)
        if n % 3 == 0 and armed:
            armed.clear()
            raise Interrupt

    armed, handled, interrupted, x = [], [], 0, torch.ones(3)
    expected = function(x)
    inner = capture.compile(lambda n: n + 1)
    compiled = capture.compile(function)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.003)
        while len(handled) < 60:
            try:
                armed.append(1)
                assert torch.equal(compiled(x), expected)
                _native.reset_code(function.__code__)
                armed.clear()
            except Interrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(handled) and interrupted
    assert not _native.is_active() and _native.stats()["wanted"] == 0
    assert torch.equal(compiled(x), expected)


def test_modes_do_not_outlive_an_interrupted_capture():
    """The interrupt falls right after a mode was entered, before the block that would leave it."""

    class DispatchMode(TorchDispatchMode):
        pass

    class FunctionMode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Interrupt(BaseException):
        pass

    def backend(module, inputs):
        torch.set_grad_enabled(False)
        DispatchMode().__enter__()
        FunctionMode().__enter__()
        raise Interrupt

    with pytest.raises(Interrupt):
        capture.compile(lambda x: x + 1, backend)(torch.ones(2))
    assert _torch.dispatch_mode_depth() == _torch.torch_function_depth() == 0 and torch.is_grad_enabled()


def test_autograds_threads_are_allowed_after_an_interrupted_capture(monkeypatch):
    """The interrupt falls between forbidding them, which making the block does, and entering that."""

    class Interrupt(BaseException):
        pass

    def interrupt(self):
        raise Interrupt

    with monkeypatch.context() as patched, pytest.raises(Interrupt):
        patched.setattr(torch.autograd.set_multithreading_enabled, "__enter__", interrupt)
        capture.compile(lambda x: x + 1)(torch.ones(2))
    assert torch._C._is_multithreading_enabled()


def test_wrappers_of_wrappers_without_end():
    """What wraps itself at each step of a loop ends in Python's exception, not at the end of the C stack."""

    def wrapped():
        pass

    for _ in range(300_000):
        wrapped = _native.DisabledCallable(wrapped)
    called = _native.CompiledCallable(wrapped, Session())
    for act in (wrapped.__call__, called.__call__, wrapped.__repr__, lambda of=wrapped: of.no_such_thing):
        with pytest.raises(RecursionError):
            act()
    del wrapped, called, act
    gc.collect()


def test_an_interrupt_while_a_traceback_is_trimmed():
    """It replaces the exception on its way, as it would in any handler; an error of the trimming does not."""

    class Trimming(Session):
        failure: type[BaseException]

        def trimmed(self, traceback):
            raise self.failure

    def fails(x):
        raise ValueError(x)

    session = Trimming()
    call = _native.CompiledCallable(fails, session)
    session.failure = KeyboardInterrupt
    for value in range(2):
        with pytest.raises(KeyboardInterrupt) as caught:
            call(value)
        assert isinstance(caught.value.__context__, ValueError)
    session.failure = ZeroDivisionError
    with pytest.raises(ValueError, match="3"):
        call(3)
