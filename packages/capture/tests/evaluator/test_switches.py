"""Torch's own switches, by which its libraries choose kernels: set in a captured frame they are set as eager sets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.backends import cudnn
from torch.nn.attention import SDPBackend, sdpa_kernel

import capture
from capture._torch import SWITCHES, switch_values


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Torch's operator database, once a test of this process has imported it, forbids setting them outside of a block.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    before = switch_values()
    yield
    put_back(before)


def put_back(before: dict[Any, Any]) -> None:
    by_reader = {reader: setter for setter, reader in SWITCHES.items()}
    for _ in range(2):  # some of them set others
        for (reader, args), value in before.items():
            if value is not None and reader(*args) != value:
                by_reader[reader](*args, value)
    assert switch_values() == before


def check_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            check_equal(*pair)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


def flags(x):
    with cudnn.flags(enabled=False, benchmark=True):
        y = x.sin()
        within = cudnn.enabled, cudnn.benchmark, cudnn.deterministic
    return y + 1, within, (cudnn.enabled, cudnn.benchmark)


def nested(x):
    with cudnn.flags(enabled=False), torch.no_grad():
        with cudnn.flags(deterministic=True):
            y = x.sin() * cudnn.deterministic
        return y + cudnn.deterministic, cudnn.enabled


def attributes(x):
    before = cudnn.benchmark
    cudnn.benchmark = not before
    y = x.sin() + cudnn.benchmark
    cudnn.benchmark = before
    return y, cudnn.benchmark


def of_a_library(x):
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = not before
    y = x @ x, matmul.allow_tf32, matmul.fp32_precision
    matmul.allow_tf32 = before
    return y, matmul.allow_tf32


def precision(x):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    y = x @ x, torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision(before)
    return y, torch.get_float32_matmul_precision()


def on_the_cpu(x):
    with torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(False):
        return x @ x, torch.backends.mkldnn.enabled


def attention(x):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION], set_priority=True):
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        within = torch.backends.cuda.flash_sdp_enabled(), torch._C._get_sdp_priority_order()
    return y, within, torch.backends.cuda.flash_sdp_enabled(), torch._C._get_sdp_priority_order()


def raising(x):
    try:
        with cudnn.flags(enabled=False):
            y = x.sin()
            raise ValueError("within")
    except ValueError:
        return y + 1, cudnn.enabled


def refused(x):
    y = x.sin()
    try:
        cudnn.benchmark = "yes"
    except RuntimeError as error:
        return y + 1, str(error)


WHOLE = [flags, nested, attributes, of_a_library, precision, on_the_cpu, attention, raising]


@pytest.mark.parametrize("program", [*WHOLE, refused])
def test_program(program: Callable[[torch.Tensor], Any]) -> None:
    x = torch.rand(4, 4)
    compiled = capture.compile(program, fullgraph=program in WHOLE)
    before = switch_values()
    expected = program(x)
    after = switch_values()
    for _ in range(2):
        put_back(before)
        check_equal(compiled(x), expected)
        assert switch_values() == after


def test_across_a_break() -> None:
    def program(x):
        with cudnn.flags(enabled=False):
            y = x.sin()
            looked_at(y)
            y = y.cos()
            within = cudnn.enabled
        return y * 2, within, cudnn.enabled

    @capture.disable
    def looked_at(y):
        assert not cudnn.enabled

    x = torch.rand(3)
    compiled = capture.compile(program)
    for _ in range(2):
        check_equal(compiled(x), program(x))


def test_left_set_and_asked_anew() -> None:
    def flip(x):
        cudnn.benchmark = not cudnn.benchmark
        return x + 1

    def flip_alone(x):
        cudnn.benchmark = not cudnn.benchmark

    for program in (flip, flip_alone):
        compiled = capture.compile(program, fullgraph=True)
        found = []
        for _ in range(4):
            compiled(torch.ones(2))
            found.append(cudnn.benchmark)
        assert found == [True, False, True, False]


def test_changed_between_calls() -> None:
    compiled = capture.compile(flags, fullgraph=True)
    x = torch.ones(2)
    try:
        for enabled, benchmark in ((True, False), (False, False), (False, True), (True, False)):
            cudnn.enabled, cudnn.benchmark = enabled, benchmark
            check_equal(compiled(x), flags(x))
    finally:
        cudnn.enabled, cudnn.benchmark = True, False


@pytest.mark.parametrize("around", [lambda: cudnn.flags(enabled=False), torch.no_grad])
def test_an_operation_that_raises_leaves_all_as_it_was(around: Callable[[], Any]) -> None:
    def program(x, at):
        with around():
            return x.sin()[at] * 2

    compiled = capture.compile(program, fullgraph=True)
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert cudnn.enabled and torch.is_grad_enabled()


def test_members_of_enumerations_in_c() -> None:
    def program(x, backend):
        return x + (backend == SDPBackend.MATH), backend.name, {SDPBackend.MATH: 1}.get(backend)

    compiled = capture.compile(program, fullgraph=True)
    x = torch.ones(2)
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        check_equal(compiled(x, backend), program(x, backend))
    assert capture.report(compiled).graph_count == 2


def test_what_is_known_of_switches() -> None:
    assert torch._C._set_cudnn_enabled in SWITCHES and torch._C._set_sdp_use_flash in SWITCHES
    assert (torch._C._get_fp32_precision_getter, ("cuda", "conv")) in switch_values()


def test_the_default_dtype_is_set_for_what_comes_after():
    def program(x):
        torch.set_default_dtype(torch.float64)
        return torch.ones(2) * x.sum(), torch.get_default_dtype()

    compiled = capture.compile(program, fullgraph=True)
    for began in (torch.float32, torch.float32, torch.float16):
        results = []
        for run in (program, compiled):
            torch.set_default_dtype(began)
            results.append((*run(torch.ones(3)), torch.get_default_dtype()))
        torch.set_default_dtype(torch.float32)
        check_equal(results[1], results[0])
        assert results[0][0].dtype == results[1][0].dtype == torch.float64


def test_what_the_default_dtype_cannot_be_raises():
    def program(x):
        try:
            torch.set_default_dtype(torch.int64)
        except TypeError as error:
            return x + 1, str(error)

    check_equal(capture.compile(program, fullgraph=True)(torch.ones(2)), program(torch.ones(2)))
