"""What a Triton kernel writes through, found in its source."""

from __future__ import annotations

from typing import Any

import pytest

from capture.errors import Unsupported
from capture.kernels import references_of, refuse_casts, written_by

triton = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")


@triton.jit
def plain(x, out, n):
    at = tl.arange(0, 16)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def through_variables(x, y, out, n):
    p = x
    for _ in range(n):
        q = p + 1
        p = y if n > 2 else q
    tl.store(value=1.0, pointer=q)


@triton.jit
def by_method(x, out):
    value = tl.load(x)
    (out + 1).atomic_add(value.to(out.dtype.element_ty))


@triton.jit
def by_block_pointer(x, out, n):
    a = tl.make_block_ptr(out, (n,), (1,), (0,), (16,), (0,))
    a = tl.advance(a, (16,))
    tl.store(a, tl.load(tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))))


@triton.jit
def offset(p, by):
    return p + by


@triton.jit
def write(p, value, also):
    tl.store(offset(p, 2), value)
    if also is not None:
        tl.store(also, value)


@triton.jit
def by_helpers(x, out, more):
    write(offset(out, 1), tl.load(offset(x, 1)), None)


@triton.jit
def by_other_helpers(x, out, more):
    write(out, tl.load(x), more)


@triton.jit
def where_asked(x, out, bias, WRITES_BACK: tl.constexpr):
    value = tl.load(x)
    if bias is not None:
        tl.store(bias, value)
    if not WRITES_BACK:
        tl.store(out, value)
    else:
        tl.store(x, value)


@triton.jit
def index_from_memory(x, index, out):
    tl.store(out + tl.load(index), tl.load(x + tl.load(index)))


@triton.jit
def renamed(x, out):
    put = tl.store
    put(out, tl.load(x))


@triton.jit
def passed(x, out, f: tl.constexpr):
    f(out, tl.load(x))


@triton.jit
def assembly(x, out):
    tl.inline_asm_elementwise("mov.u32 $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out, 1)


@triton.jit
def address(x, out):
    tl.store(tl.load(x).to(tl.pointer_type(tl.float32)), 1.0)


@triton.jit
def address_by_type(x, out):
    tl.store(tl.load(x).to(out.dtype), 1.0)


@pytest.mark.parametrize(
    "kernel, constants, expected",
    [
        (plain, {}, {"out"}),
        (through_variables, {}, {"x", "y"}),
        (by_method, {}, {"out"}),
        (by_block_pointer, {}, {"out"}),
        (by_helpers, {}, {"out"}),
        (by_other_helpers, {}, {"out", "more"}),
        (where_asked, {}, {"x", "out", "bias"}),
        (where_asked, {"bias": None, "WRITES_BACK": True}, {"x"}),
        (where_asked, {"bias": None, "WRITES_BACK": False}, {"out"}),
        (index_from_memory, {}, {"out"}),
        (renamed, {}, None),
        (passed, {}, None),
        (assembly, {}, None),
    ],
    ids=lambda value: getattr(getattr(value, "fn", None), "__name__", None),
)
def test_written(kernel: Any, constants: dict[str, Any], expected: set[str] | None):
    tensors = {"x", "y", "out", "more", "bias", "index"} & set(kernel.arg_names) - constants.keys()
    assert written_by(kernel.fn, tensors, constants) == expected


@pytest.mark.parametrize("kernel", [address, address_by_type])
def test_pointers_made_of_integers_are_refused(kernel):
    with pytest.raises(Unsupported, match="makes pointers"):
        refuse_casts("kernel", references_of(kernel.fn)[1])
        written_by(kernel.fn, {"x", "out"}, {})


def test_references():
    references, texts = references_of(by_helpers.fn)
    assert {each.name for each in references} == {"write", "offset"}
    assert len(texts) == 3
