"""Joint kernels' native part against a driver made of Python: the table that reaches the device, and what it refuses."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import struct
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
from triton.runtime.build import compile_module_from_src

from inductor.addresses import address_facts
from inductor.triton import joint_launcher
from inductor.triton import native as native_module

BUFFER, INTEGER, FLOAT = range(3)
CHUNK = 496
MAIN, FILL = 0x100, 0x300


class Driver:
    """`cuLaunchKernel` that fills tables, which are on the host, as the device does, and notes other launches with theirs."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.fills: list[tuple[int, int]] = []
        self.words = 0
        u, p = ctypes.c_uint, ctypes.c_void_p
        self._launch = ctypes.CFUNCTYPE(ctypes.c_int, p, u, u, u, u, u, u, u, p, ctypes.POINTER(p), p)(self.launch)
        self._text = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))(lambda *_: 0)

    def addresses(self) -> list[int]:
        return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (self._launch, self._launch, self._text)]

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        address = ctypes.cast(params[0], ctypes.POINTER(ctypes.c_uint64))[0]
        if function == FILL:
            count = ctypes.cast(params[1], ctypes.POINTER(ctypes.c_uint))[0]
            given = ctypes.string_at(params[2], CHUNK * 8)  # all of the parameter is read
            ctypes.memmove(address, given, min(count, gx * bx) * 8)
            self.fills.append((gx, count))
        else:
            table = struct.unpack(f"{self.words}q", ctypes.string_at(address, self.words * 8))
            self.launches.append(
                {"function": function, "programs": gx, "threads": bx, "shared": shared, "table": table}
            )
        return 0


@pytest.fixture(scope="module")
def native():
    # Another text is another module: what the process launches by stays as it is.
    return compile_module_from_src(native_module.native_text(joint_launcher.SOURCE) + "/* a test's */\n", "joint")


@pytest.fixture
def driver(native):
    made = Driver()
    native.configure(address_facts(), lambda device: 7, lambda device: None, *made.addresses())
    return made


class Compiler:
    """Functions by what is asked for: 0x100 for any address, 0x101 for aligned ones, 0x300 to fill a table."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, which):
        self.asked.append(which)
        return (FILL, 128, 0, False, self) if which == joint_launcher.FILLER else (MAIN + which, 256, 64, False, self)


def joint(native, driver, kinds, places, words, grid, compiler=None):
    driver.words = words
    packed = struct.pack(f"={len(places)}i", *places)
    allocate = lambda: torch.full((words,), -1, dtype=torch.int64)  # noqa: E731
    return native.joint("j", bytes(kinds), packed, words, 3, grid, compiler or Compiler(), allocate)


def words(*values: int) -> bytes:
    return struct.pack(f"{len(values)}q", *values)


def aligned(extra: int = 0) -> torch.Tensor:
    whole = torch.empty(64, dtype=torch.int8)
    start = -whole.data_ptr() % 16 + extra
    return whole[start : start + 16]


def test_arguments_lie_at_their_places(native, driver):
    kernel = joint(native, driver, [BUFFER, INTEGER, BUFFER, FLOAT], [4, 5, 2, 3], 6, (words(0, 5), 9))
    x, y = aligned(), aligned()
    kernel(x, -77, y, 0.25)
    (launch,) = driver.launches
    bits = struct.unpack("q", struct.pack("d", 0.25))[0]
    assert launch["table"] == (0, 5, y.data_ptr(), bits, x.data_ptr(), -77)
    assert (launch["programs"], launch["threads"], launch["shared"], launch["function"]) == (9, 256, 64, MAIN + 1)


@pytest.mark.parametrize("count", [1, CHUNK, CHUNK + 1, 3 * CHUNK - 7])
def test_large_tables_are_filled_by_several_launches(native, driver, count):
    kernel = joint(native, driver, [INTEGER] * count, range(count), count, (b"", 1))
    kernel(*range(count))
    assert driver.launches[0]["table"] == tuple(range(count))
    assert len(driver.fills) == -(-count // CHUNK)


def test_addresses_that_are_not_aligned_have_a_form_of_their_own(native, driver):
    compiler = Compiler()
    kernel = joint(native, driver, [BUFFER, BUFFER], [1, 2], 3, (words(0), 1), compiler)
    for extra in (0, 4, 0, 8):
        kernel(aligned(), aligned(extra))
    assert [launch["function"] for launch in driver.launches] == [MAIN + 1, MAIN, MAIN + 1, MAIN]
    assert sorted(compiler.asked) == [0, 1, 2], "each once"


def test_the_grid_is_asked_when_numbers_change(native, driver):
    asked = []

    def grid(n, f):
        asked.append((n, f))
        return words(n), n

    kernel = joint(native, driver, [BUFFER, INTEGER, FLOAT], [1, 2, 3], 4, grid)
    for n, f in ((3, 0.5), (3, 0.5), (4, 0.5), (0, 0.5), (3, 0.5)):
        kernel(aligned(), n, f)
    assert asked == [(3, 0.5), (4, 0.5), (0, 0.5), (3, 0.5)]
    assert [(launch["programs"], launch["table"][0]) for launch in driver.launches] == [(3, 3), (3, 3), (4, 4), (3, 3)]


@pytest.mark.parametrize("grid", [3, (1, 2), (b"", "x"), (words(1, 2), 1)])
def test_grids_that_are_none(native, driver, grid):
    with pytest.raises((TypeError, ValueError)):
        joint(native, driver, [INTEGER], [0], 1, lambda n: grid)(1)
    if isinstance(grid, tuple):
        with pytest.raises((TypeError, ValueError)):
            joint(native, driver, [INTEGER], [0], 1, grid)
    assert not driver.launches


def test_words_beyond_the_table(native, driver):
    with pytest.raises(ValueError):
        joint(native, driver, [INTEGER], [1], 1, (b"", 1))


def test_wrong_arguments_and_what_a_callback_raises(native, driver):
    kernel = joint(native, driver, [INTEGER], [0], 1, (b"", 1))
    for wrong in ((), (1, 2), ("x",), (2**64,)):
        with pytest.raises((TypeError, OverflowError)):
            kernel(*wrong)

    def fails(*_):
        raise KeyError("so")

    with pytest.raises(KeyError):
        joint(native, driver, [INTEGER], [0], 1, fails)(1)
    with pytest.raises(KeyError):
        joint(native, driver, [INTEGER], [0], 1, (b"", 1), fails)(1)
    assert not driver.launches


def test_a_kernel_that_goes_lets_go(native, driver):
    compiler = Compiler()
    kernel, gone = joint(native, driver, [BUFFER], [0], 1, lambda: (b"", 1), compiler), weakref.ref(compiler)
    kernel(aligned())
    del compiler
    gc.collect()
    assert gone() is not None
    del kernel
    gc.collect()
    assert gone() is None


def test_code_that_was_loaded_is_taken(native, driver, monkeypatch):
    """As it is loaded from machine code, whatever else is noted with it."""
    monkeypatch.setattr(joint_launcher, "target", lambda: None)
    monkeypatch.setattr(joint_launcher, "compile_for", lambda source, *_: source)
    monkeypatch.setattr(joint_launcher, "joint_source", lambda function, aligned: MAIN + aligned)
    loaded = native_module.Loaded
    monkeypatch.setattr(joint_launcher, "on_device", lambda code, device: loaded(code, 256, 64, False, None, "a key"))
    monkeypatch.setattr(joint_launcher, "_filler", lambda device: loaded(FILL, 128, 0, False, None))
    layout = SimpleNamespace(warps=8, joint=SimpleNamespace(device=torch.device("cuda", 0)))
    compiler = joint_launcher.Compiler(None, layout)  # type: ignore[arg-type]
    x = aligned()
    joint(native, driver, [BUFFER], [1], 2, (words(0), 5), compiler.compiled)(x)
    (launch,) = driver.launches
    assert launch["threads"] == 256 and launch["shared"] == 64 and launch["table"] == (0, x.data_ptr())
