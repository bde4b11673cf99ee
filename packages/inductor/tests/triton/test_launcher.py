"""The launcher's native part against a driver made of Python: what it hands over, which variant it takes, what it refuses."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
from inductor_tracing import trace
from triton.runtime.build import compile_module_from_src

from inductor import lower, schedule
from inductor.addresses import address_facts
from inductor.triton import TritonBackend, launcher, signature
from inductor.triton import native as native_module
from inductor.triton.blocks import Nature, choose
from inductor.triton.choices import Choices
from inductor.triton.nature import general_blocks

STREAM = 0x5000
BUFFER, INTEGER, FLOAT = range(3)
NO_CONTEXT = 201


class Attribute(ctypes.Structure):
    """CUDA's CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class Configuration(ctypes.Structure):
    """CUDA's CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


class Driver:
    """`cuLaunchKernel` and `cuLaunchKernelEx` that note what they are called with; `answers` are their next ones."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.answers: list[int] = []
        self.entered: list[int] = []
        self.kinds = b""
        u, p = ctypes.c_uint, ctypes.c_void_p
        self._launch = ctypes.CFUNCTYPE(ctypes.c_int, p, u, u, u, u, u, u, u, p, ctypes.POINTER(p), p)(self.launch)
        self._early = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Configuration), p, ctypes.POINTER(p), p)(self.early)
        self._text = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))(self.text)

    def addresses(self) -> list[int]:
        return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (self._launch, self._early, self._text)]

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        kinds = {BUFFER: ctypes.c_uint64, INTEGER: ctypes.c_int64, FLOAT: ctypes.c_double}
        given = [ctypes.cast(params[k], ctypes.POINTER(kinds[kind]))[0] for k, kind in enumerate(self.kinds)]
        self.launches.append({"function": function, "grid": (gx, gy, gz), "block": (bx, by, bz), "shared": shared})
        self.launches[-1] |= {"stream": stream, "given": given}
        return self.answers.pop(0) if self.answers else 0

    def early(self, configuration, function, params, extra):
        told = configuration[0]
        answer = self.launch(function, *told.grid, *told.block, told.shared, told.stream, params, extra)
        self.launches[-1]["attributes"] = [(one.id, one.value) for one in told.attributes[: told.count]]
        return answer

    def text(self, status, text):
        text[0] = b"made up"
        return 0


@pytest.fixture(scope="module")
def native():
    # Another text is another module: what the process launches by stays as it is.
    return compile_module_from_src(native_module.native_text(native_module.SOURCE) + "/* a test's */\n", "launcher")


@pytest.fixture
def driver(native):
    made = Driver()
    native.configure(address_facts(), lambda device: STREAM + device, made.entered.append, *made.addresses())
    return made


class Compiler:
    """Notes what is asked for, and gives functions 1, 2, 3..."""

    def __init__(self, answer=lambda given, narrow: (given, narrow), early: bool = False) -> None:
        self.asked: list[tuple[bytes, bool]] = []
        self.forms: list[int] = []
        self.answer = answer
        self.early = early

    def __call__(self, given, narrow, form):
        self.asked.append((given, narrow))
        self.forms.append(form)
        return *self.answer(given, narrow), len(self.asked), 128, 64, self.early, self


def kernel_of(native, driver, kinds, plan=(1000, 0, 256), check=0, compiler=None):
    driver.kinds = kinds + bytes([BUFFER] if check else [])
    return native.kernel("k", kinds, 3, plan, check, compiler or Compiler())


def aligned(extra=0):
    """A tensor whose address is so many bytes beyond a multiple of 16."""
    whole = torch.empty(64, dtype=torch.int8)
    start = -whole.data_ptr() % 16 + extra
    return whole[start : start + 16]


def test_arguments_grid_and_stream(native, driver):
    kinds = bytes([BUFFER, BUFFER, INTEGER, FLOAT])
    kernel = kernel_of(native, driver, kinds, plan=lambda n, f: (10 * n, 0, 256))
    x, y = aligned(), torch.nn.Parameter(torch.empty(3))
    kernel(x, y, 77, 0.25)
    (launch,) = driver.launches
    assert launch["given"] == [x.data_ptr(), y.data_ptr(), 77, 0.25]
    assert launch["grid"] == (4, 1, 1) and launch["block"] == (128, 1, 1) and launch["shared"] == 64
    assert launch["stream"] == STREAM + 3 and launch["function"] == 1


def test_what_waits_by_itself_is_launched_early(native, driver):
    """Set up while the launch before it ends: CUDA's "programmatic stream serialization"."""
    x = aligned()
    for early in (False, True):
        kernel_of(native, driver, bytes([BUFFER, INTEGER]), compiler=Compiler(early=early))(x, 77)
    usual, early = driver.launches
    assert early.pop("attributes") == [(6, 1)] and early == usual
    driver.answers = [700]
    with pytest.raises(RuntimeError, match="CUDA error 700 at the launch of k: made up"):
        kernel_of(native, driver, b"", compiler=Compiler(early=True))()


def test_a_plan_is_asked_for_again_where_numbers_change(native, driver):
    """With all arguments, if it wants them."""
    asked = []

    def plan(*arguments):
        asked.append(arguments)
        return 1000, 0, 256

    kinds = driver.kinds = bytes([BUFFER, INTEGER])
    kernel = native.kernel("k", kinds, 3, plan, 0, Compiler(), True)
    x, y = aligned(), aligned()
    for tensor, number in ((x, 1), (y, 1), (y, 2)):
        kernel(tensor, number)
    assert [number for _, number in asked] == [1, 2] and asked[0][0] is x and asked[1][0] is y
    assert len(driver.launches) == 3
    driver.kinds = bytes([BUFFER])
    kernel = native.kernel("k", driver.kinds, 3, plan, 0, Compiler(), True)
    kernel(x), kernel(y)
    assert len(asked) == 3 and asked[2][0] is x


@pytest.mark.parametrize(("points", "programs"), [(1, 1), (256, 1), (257, 2), (2**31 * 256 - 256, 2**31 - 1)])
def test_programs_cover_the_points(native, driver, points, programs):
    kernel_of(native, driver, b"", plan=(points, 0, 256))()
    assert driver.launches[0]["grid"] == (programs, 1, 1)


def test_no_points_no_launch(native, driver):
    kernel_of(native, driver, bytes([INTEGER]), plan=lambda n: (n, 0, 256))(0)
    assert not driver.launches


def test_more_programs_than_a_launch_has(native, driver):
    with pytest.raises(RuntimeError, match="programs"):
        kernel_of(native, driver, b"", plan=(2**31 * 256, 0, 256))()


def test_the_check_comes_after_the_arguments(native, driver):
    kernel_of(native, driver, bytes([BUFFER]), check=0xABC0)(aligned())
    assert driver.launches[0]["given"][1] == 0xABC0


def test_a_variant_serves_what_it_assumes_and_no_more(native, driver):
    compiler = Compiler()
    kernel = kernel_of(native, driver, bytes([BUFFER, BUFFER, INTEGER]), compiler=compiler)
    kernel(aligned(), aligned(4), 32)
    assert compiler.asked == [(bytes([0b101]), True)]
    kernel(aligned(), aligned(), -48)  # more holds than is assumed
    assert len(compiler.asked) == 1
    kernel(aligned(), aligned(), 33)
    assert compiler.asked[1:] == [(bytes([0b011]), True)]
    kernel(aligned(8), aligned(), 16)
    kernel(aligned(), aligned(), 2**31)
    assert compiler.asked[2:] == [(bytes([0b110]), True), (bytes([0b111]), False)]
    assert [launch["function"] for launch in driver.launches] == [1, 1, 2, 3, 4]
    assert driver.launches[-1]["given"][2] == 2**31


def test_what_does_not_hold_is_never_launched(native, driver):
    more = Compiler(lambda given, narrow: (b"\1", narrow))
    with pytest.raises(SystemError, match="compiled for other"):
        kernel_of(native, driver, bytes([BUFFER]), compiler=more)(aligned(1))
    with pytest.raises(SystemError, match="compiled for other"):
        kernel_of(native, driver, bytes([INTEGER]), compiler=Compiler(lambda given, _: (given, True)))(2**40)
    assert not driver.launches


def test_the_plan_is_asked_when_numbers_change(native, driver):
    asked = []

    def plan(n, scale):
        asked.append((n, scale))
        return n, int(n > 1000), 64

    compiler = Compiler()
    kernel = kernel_of(native, driver, bytes([INTEGER, FLOAT]), plan=plan, compiler=compiler)
    for n, scale in (
        (100, 0.5),
        (100, 0.5),
        (200, 0.5),
        (2000, 0.5),
        (2000, -0.0),
        (2000, 0.0),
        (2000, 0.0),
        (100, 0.5),
    ):
        kernel(n, scale)
    assert asked == [(100, 0.5), (200, 0.5), (2000, 0.5), (2000, 0.0), (2000, 0.0), (100, 0.5)]
    assert [launch["grid"][0] for launch in driver.launches] == [2, 2, 4, 32, 32, 32, 32, 2]
    assert compiler.forms == [0, 1]
    assert [launch["function"] for launch in driver.launches] == [1, 1, 1, 2, 2, 2, 2, 1]


@pytest.mark.parametrize("plan", [3, (1, 2), (1, 0, 0), ("a", 0, 1)])
def test_plans_that_are_none(native, driver, plan):
    with pytest.raises((TypeError, ValueError)):
        kernel_of(native, driver, bytes([INTEGER]), plan=lambda n: plan)(1)
    if isinstance(plan, tuple):
        with pytest.raises((TypeError, ValueError)):
            kernel_of(native, driver, bytes([INTEGER]), plan=plan)
    assert not driver.launches


class Forms:
    """In place of `Choices`: form 1 has positions of 64 bits."""

    kernel = None
    blocks = tuple(choose(None, None, Nature(0, 4), largest) for largest in (0, None))

    def function(self, form):
        return form


def test_variants_are_few(monkeypatch):
    asked: list[Any] = []
    monkeypatch.setattr(
        launcher, "load", lambda *args: asked.append((args[0], *args[3:])) or launcher.Loaded(1, 2, 3, False, 4)
    )
    variants = launcher.Variants(Forms())  # type: ignore[arg-type]
    assert variants.compiled(b"\7", True, 0)[:2] == (b"\7", True)
    assert variants.compiled(b"\3", True, 0)[:2] == (b"\3", True)
    assert variants.compiled(b"\7", True, 1)[:2] == (b"\7", False), "arithmetic on sizes may need 64 bits, too"
    assert variants.compiled(b"\5", False, 0)[:2] == (b"\0", False)
    assert asked == [(0, b"\7", True), (0, b"\3", True), (1, b"\7", False), (0, b"\0", False)]


def test_what_was_compiled_goes_with_its_function(monkeypatch):
    class Function:
        pass

    class Compiled:  # as Triton's: what was compiled knows of what
        def __init__(self, function):
            self.function = function

    monkeypatch.setattr(launcher, "source_of", lambda function, *_: function)
    monkeypatch.setattr(launcher, "target", lambda: None)
    monkeypatch.setattr(launcher, "compile_for", lambda function, *_: Compiled(function))
    made: list[Any] = []
    monkeypatch.setattr(
        launcher, "on_device", lambda compiled, device: made.append(1) or launcher.Loaded(1, 2, 3, False, compiled)
    )
    function, kernel = Function(), SimpleNamespace(device=torch.device("cuda", 0), args=())
    blocks = choose(None, None, Nature(0, 4), None)
    first = launcher.load(function, kernel, blocks, b"", True)
    assert launcher.load(function, kernel, blocks, b"", True) is first and made == [1]
    gone = weakref.ref(function)
    del function, first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "names", [{torch.float16: "fp16", torch.bfloat16: "bf16"}, {torch.float32: "fp32", torch.int64: "i64"}]
)
@pytest.mark.parametrize("ahead", [False, True])
def test_a_text_is_compiled_for_each_dtype_in_memory(monkeypatch, names, ahead):
    """Loads and stores convert: kernels over several dtypes have one text, and so one function."""
    kernels, backend = [], TritonBackend("cpu")
    for dtype in names:
        inputs = [torch.ones(20, dtype=dtype), torch.ones(20, dtype=dtype)]
        graph, _ = trace(torch.mul, *inputs)
        kernels += schedule(lower(graph, inputs, traits=lambda _: backend.traits)).kernels
    function = SimpleNamespace()
    assert len({backend.emit(kernel).text for kernel in kernels}) == 1

    monkeypatch.setattr(signature, "ASTSource", lambda function, types, **_: SimpleNamespace(signature=types))
    monkeypatch.setattr(launcher, "target", lambda: None)
    monkeypatch.setattr(launcher, "compile_for", lambda source, *_: source)
    monkeypatch.setattr(launcher, "on_device", lambda source, device: launcher.Loaded(1, 2, 3, False, source))
    if ahead:
        for kernel in kernels:
            launcher.begin(Choices(kernel, function, lambda *_: function), 0)
    loaded = [launcher.load(function, kernel, general_blocks(kernel), b"\7", True).owner for kernel in kernels]
    assert [source.signature["in0"] for source in loaded] == [f"*{name}" for name in names.values()]


def test_the_drivers_refusal(native, driver):
    driver.answers = [700]
    with pytest.raises(RuntimeError, match="CUDA error 700 at the launch of k: made up"):
        kernel_of(native, driver, b"")()


def test_a_thread_without_context_gets_one(native, driver):
    driver.answers = [NO_CONTEXT, 0]
    kernel_of(native, driver, b"")()
    assert driver.entered == [3] and len(driver.launches) == 2
    driver.answers = [NO_CONTEXT, NO_CONTEXT]
    with pytest.raises(RuntimeError, match="CUDA error 201"):
        kernel_of(native, driver, b"")()


@pytest.mark.parametrize("args", [(), (1, 2), ("x",), (1.5,), (2**64,)])
def test_wrong_arguments(native, driver, args):
    with pytest.raises((TypeError, OverflowError)):
        kernel_of(native, driver, bytes([INTEGER]))(*args)
    with pytest.raises((TypeError, AttributeError)):
        kernel_of(native, driver, bytes([BUFFER]))(*args)
    assert not driver.launches


def test_what_a_callback_raises_comes_out(native, driver):
    def fails(*_):
        raise KeyError("so")

    with pytest.raises(KeyError):
        kernel_of(native, driver, b"", plan=fails)()
    with pytest.raises(KeyError):
        kernel_of(native, driver, b"", compiler=fails)()
    assert not driver.launches


def test_a_kernel_that_goes_lets_go(native, driver):
    compiler = Compiler()
    kernel, gone = kernel_of(native, driver, bytes([INTEGER]), compiler=compiler), weakref.ref(compiler)
    for n in (16, 17, 2**40, 2**40 + 1):
        kernel(n)
    assert len(compiler.asked) == 4
    del compiler
    gc.collect()
    assert gone() is not None
    del kernel
    gc.collect()
    assert gone() is None
