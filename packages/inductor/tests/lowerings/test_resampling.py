"""Images at another resolution, and with borders of their own elements, are loops, with eager's results."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_dynamic import check_dynamic
from inductor_tracing import check

from aotgrad import core_decompositions, trace_inference
from inductor import lower
from inductor.ir.operations import Cast
from inductor.ir.program import ExternOp, LoopOp
from inductor.traits import DeviceTraits

aten = torch.ops.aten
ROWS = torch.contiguous_format
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SMOOTH = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
LENGTHS = (7, 9, 5)
RESULTS = [(7, 9, 5), (14, 18, 10), (3, 4, 2), (20, 5, 11), (1, 1, 1), (50, 61, 33)]


def in_aten(program: Any) -> bool:
    return any(isinstance(op, ExternOp) and "empty" not in str(op.target) for op in program.operations)


def image(rank: int, dtype: torch.dtype = torch.float32, layout: torch.memory_format = ROWS) -> torch.Tensor:
    x = torch.randn(2, 3, *LENGTHS[:rank])
    return x.to(dtype).contiguous(memory_format=layout)


def layouts(rank: int) -> list[torch.memory_format]:
    return [ROWS, *({2: [torch.channels_last], 3: [torch.channels_last_3d]}.get(rank, []))]


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_weighted_sums(mode: str, aligned: bool, dtype: torch.dtype) -> None:
    rank = SMOOTH[mode]
    for layout in layouts(rank):
        x = image(rank, dtype, layout)
        for size in RESULTS:
            assert not in_aten(check(lambda x, s=size: F.interpolate(x, s[:rank], mode=mode, align_corners=aligned), x))


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize("scale", [2, 0.5, 1.7, 4, 0.3, 3])
def test_by_a_factor(mode: str, scale: float) -> None:
    x = image(SMOOTH[mode])
    for aligned in (False, True):
        options = {"scale_factor": scale, "mode": mode, "align_corners": aligned}
        assert not in_aten(check(lambda x, o=options: F.interpolate(x, **o), x))


def test_a_factor_that_the_lengths_do_not_follow() -> None:
    x = image(2)
    for scale in (0.4, 1.5, 3.0):
        for op in (aten.upsample_bilinear2d, aten.upsample_bicubic2d):
            assert not in_aten(check(lambda x, op=op, s=scale: op(x, [15, 20], False, s, s), x))
        for op in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d):
            assert not in_aten(check(lambda x, op=op, s=scale: op(x, [15, 20], s, s), x))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nearest(mode: str, rank: int, dtype: torch.dtype) -> None:
    for layout in layouts(rank):
        x = image(rank, dtype, layout)
        for size in RESULTS:
            program = check(lambda x, s=size: F.interpolate(x, s[:rank], mode=mode), x, rtol=0, atol=0)
            assert not in_aten(program)
        for scale in (2, 0.5, 1.7, 4, 0.3, 3, 1 / 3):
            if all(int(length * scale) for length in LENGTHS[:rank]):
                check(lambda x, s=scale: F.interpolate(x, scale_factor=s, mode=mode), x, rtol=0, atol=0)


def test_positions_of_long_rows() -> None:
    """Where float32 just reaches the next element."""
    x = torch.arange(997.0).view(1, 1, 997)
    for size in (1994, 2991, 996, 998, 5000):
        for mode in ("nearest", "nearest-exact"):
            check(lambda x, s=size, m=mode: F.interpolate(x, s, mode=m), x, rtol=0, atol=0)


def test_bytes_are_atens() -> None:
    x = torch.randint(0, 255, (1, 3, 7, 9), dtype=torch.uint8)
    for mode in ("bilinear", "bicubic", "nearest"):
        assert in_aten(check(lambda x, m=mode: F.interpolate(x, (14, 5), mode=m), x))


def test_what_is_not_finite_spreads_as_in_eager() -> None:
    x = image(2)
    x[0, 0, 3, 4], x[0, 1, 0, 0], x[1, 2, 6, 8] = torch.inf, torch.nan, -torch.inf
    for mode in ("bilinear", "bicubic"):
        for size in ((7, 9), (14, 18), (3, 4), (13, 17)):
            for aligned in (False, True):
                check(lambda x, s=size, m=mode, a=aligned: F.interpolate(x, s, mode=m, align_corners=a), x)


def test_what_is_not_finite_where_a_symbol_stays_as_it_was() -> None:
    x = image(2)
    x[0, 0, 3, 4], x[0, 1, 0, 0], x[1, 2, 6, 8] = torch.inf, torch.nan, -torch.inf
    check_dynamic(
        lambda x: (aten.upsample_bilinear2d(x, [7, 5], False),), (x,), (torch.randn(2, 3, 5, 5),), equal_nan=True
    )


def test_among_other_operations() -> None:
    x = image(2)
    assert not in_aten(check(lambda x: F.interpolate(x.sin() * 2, scale_factor=2, mode="bilinear").relu(), x))
    assert not in_aten(check(lambda x: F.interpolate(F.pad(x, (1, 1, 1, 1), mode="reflect"), scale_factor=2), x))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", *SMOOTH])
def test_places_in_a_doubled_image_are_made_of_integers(mode: str) -> None:
    """So a compiler can tell which elements neighbours have in common: those of a thread are loaded once."""
    x = image(SMOOTH.get(mode, 2))
    for scale, whole in ((2, True), (4, True), (3, False)):
        options = {"scale_factor": scale, "mode": mode}
        program = check(lambda x, o=options: F.interpolate(x, **o), x, rtol=1e-5, atol=1e-5)
        bodies = [op.body for op in program.operations if isinstance(op, LoopOp)]
        casts = [(body.dtype(op.value.at), op.dtype) for body in bodies for op in body.ops if isinstance(op, Cast)]
        assert all(a.is_floating_point <= b.is_floating_point for a, b in casts) == whole


def test_sizes_that_are_symbols() -> None:
    examples = [(torch.randn(2, 3, *lengths),) for lengths in ((7, 9), (4, 20), (11, 6))]
    for size in ((14, 5), (1, 1)):
        for aligned in (False, True):

            def both(x: torch.Tensor, size: Any = size, aligned: bool = aligned) -> Any:
                return (
                    aten.upsample_bilinear2d(x, list(size), aligned),
                    aten.upsample_bicubic2d(x, list(size), aligned),
                    aten.upsample_nearest2d(x, list(size)),
                    aten._upsample_nearest_exact2d(x, list(size)),
                )

            check_dynamic(both, *examples, rtol=1e-4, atol=1e-5)


WIDTHS = [(1, 1, 1, 1, 1, 1), (2, 0, 0, 3, 1, 2), (4, 3, 1, 6, 0, 0), (-1, 2, 3, -2, 1, 1), (-2, -1, -1, 0, -3, 2)]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_borders(mode: str, rank: int, dtype: torch.dtype) -> None:
    for layout in layouts(rank):
        x = (image(rank) * 50).abs().to(dtype).contiguous(memory_format=layout)
        for widths in WIDTHS:
            for given in (x, x[0]) if layout is ROWS else (x,):
                program = check(lambda x, w=widths: F.pad(x, w[: 2 * rank], mode=mode) + 1, given, rtol=0, atol=0)
                assert not in_aten(program)


def test_borders_wider_than_the_image() -> None:
    assert not in_aten(check(lambda x: F.pad(x, (12, 20, 9, 9), mode="replicate"), image(2), rtol=0, atol=0))


def test_borders_of_what_is_computed() -> None:
    x = image(2)
    for mode in ("reflect", "replicate"):
        program = check(lambda x, m=mode: F.pad((x * 2).relu(), (1, 2, 3, 1), mode=m).sum(-1), x)
        assert not in_aten(program)


def test_borders_of_sizes_that_are_symbols() -> None:
    for mode in ("reflection_pad2d", "replication_pad2d"):
        pad = getattr(aten, mode)
        examples = [(torch.randn(2, 3, *lengths),) for lengths in ((7, 9), (4, 20), (11, 6))]
        check_dynamic(lambda x, pad=pad: (pad(x, [2, 1, 3, 1]),), *examples)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", *SMOOTH])
def test_factors_that_eager_does_not_ask_for(mode: str) -> None:
    """Where a length stays, or doubles, some of its kernels take the positions from that."""
    ranks = [SMOOTH[mode]] if mode in SMOOTH else [1, 2, 3]
    for rank in ranks:
        for lengths, channels, layout in itertools.product([(9, 8, 7), (31, 64, 3)], (3, 4), layouts(rank)):
            x = torch.randn(1, channels, *lengths[:rank]).contiguous(memory_format=layout)

            def resampled(x: torch.Tensor) -> Any:
                return tuple(F.interpolate(x, scale_factor=scale, mode=mode) for scale in (1.0001, 1.03, 2.0001, 2.0))

            assert not in_aten(check(resampled, x))


def test_factors_that_eager_does_not_ask_for_of_sizes_that_are_symbols() -> None:
    examples = [(torch.randn(2, 4, *lengths),) for lengths in ((7, 9), (40, 90), (14, 18), (9, 14))]
    for given in (examples, [(x.contiguous(memory_format=torch.channels_last),) for (x,) in examples]):
        check_dynamic(
            lambda x: (
                aten.upsample_bilinear2d(x, [14, 18], False, 1.01, 1.01),
                aten.upsample_nearest2d(x, [14, 18], 1.01, 2.01),
                aten.upsample_nearest2d(x, [80, 90], 1.01, 2.01),
            ),
            *given,
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.parametrize(("mode", "apart", "together"), [("bilinear", 2, 1), ("bicubic", 2, 2)])
def test_passes_follow_from_what_memory_costs(mode: str, apart: int, together: int) -> None:
    """Where keeping costs little, dimensions are resampled one after another; where it is dear, few taps are taken at once."""
    rank = SMOOTH[mode]
    x = torch.randn(4, 4, *(16,) * rank)
    with torch.no_grad():
        traced = trace_inference(lambda x: (F.interpolate(x, scale_factor=2.0, mode=mode),), [x], core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    for traits, passes in ((DeviceTraits(), apart), (DeviceTraits(read_at_a_place=1.0, kept=8.0), together)):
        program = lower(traced.module, fakes, traits=lambda device, traits=traits: traits)
        assert len(program.operations) == passes
