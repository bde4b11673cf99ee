"""Images with channels last: what is copied, what stays, and that results are eager's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_relaid import hold, traced
from torch import fx

import aotgrad
from inductor.lowerings import LOWERINGS
from inductor.passes import layouts
from inductor.traits import DeviceTraits
from symshapes import DimPolicy, FakeMode, ShapeEnv

aten = torch.ops.aten
LAST = torch.channels_last

IMAGE, KERNEL, DEPTHWISE = torch.randn(2, 4, 12, 12), torch.randn(4, 4, 3, 3), torch.randn(4, 1, 3, 3)


def traits(device: torch.device) -> DeviceTraits:
    return DeviceTraits(channels_last=(torch.float32,))


def channels_last(graph: fx.Graph, of: Any) -> int:
    return layouts.channels_last(graph, of, LOWERINGS)


def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.conv2d(x, w, padding=1), w)


def copies(module: fx.GraphModule) -> list[torch.memory_format]:
    return [n.kwargs["memory_format"] for n in module.graph.nodes if n.target is aten.clone.default if n.kwargs]


def checked(program: Any, *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph with channels last, which is held against eager."""
    module = traced(program, *inputs)
    assert channels_last(module.graph, traits)
    hold(module, program, *inputs)
    return module


def test_one_copy_before_a_chain_of_convolutions_and_one_behind():
    def program(x, w, d):
        y = F.conv2d(x, w, padding=1).relu()
        y = F.conv2d(F.max_pool2d(y, 2), d, padding=1, groups=4) * 2
        return (F.conv2d(torch.cat([y, y.sin()], 1), torch.cat([w, w], 1)),)

    assert copies(checked(program, IMAGE, KERNEL, DEPTHWISE)) == [LAST, torch.contiguous_format]


def test_a_transposed_convolution_alone_has_channels_last():
    for options in ({"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}):
        module = checked(lambda x, w: (F.conv_transpose2d(x, w, **options).relu(),), IMAGE, KERNEL)
        assert copies(module) == [LAST, torch.contiguous_format]


def test_a_transposed_convolution_alone_stays_in_training():
    module = traced(lambda x, w: (F.conv_transpose2d(x, w).sum(),), IMAGE, KERNEL.clone().requires_grad_(), train=True)
    assert not channels_last(module.graph, traits)


@pytest.mark.parametrize("how", [{"scale_factor": 2}, {"size": (17, 19), "align_corners": True}])
def test_images_grow_with_channels_last(how: dict[str, Any]) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
        return (F.conv2d(F.interpolate(F.conv2d(x, w), mode="bilinear", **how), w),)

    module = checked(program, IMAGE, KERNEL)
    assert copies(module) == [LAST, torch.contiguous_format]


def test_what_two_convolutions_read_is_copied_once():
    module = checked(lambda x, w: (F.conv2d(x, w).mean((2, 3)), F.conv2d(x, w, stride=2).mean((2, 3))), IMAGE, KERNEL)
    assert copies(module) == [LAST]


def test_rows_of_channels_become_a_view():
    module = checked(lambda x, w: (twice(x, w).permute(0, 2, 3, 1).reshape(-1, 4).sin(),), IMAGE, KERNEL)
    assert copies(module) == [LAST, torch.contiguous_format]  # the second is eager's own, of what is in order now


def test_a_view_that_is_none_any_more_reads_a_copy():
    module = checked(lambda x, w: (twice(x, w).view(2, -1).sum(1),), IMAGE, KERNEL)
    assert copies(module) == [LAST, torch.contiguous_format]


def test_kernels_chosen_by_strides_and_others_operators_get_what_they_were_traced_with():
    def program(x, w):
        y = twice(x, w)
        return (torch._weight_norm(y, torch.ones(2, 1, 1, 1), 0), F.scaled_dot_product_attention(y, y, y), y.cumsum(3))

    checked(program, IMAGE, KERNEL)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: (torch.as_strided(twice(x, w), (3, 3), (7, 1), 5) * 1,),
        lambda x, w: (torch.as_strided_copy(twice(x, w)[:, 0, 0, 0], (2, 30), (400, 1), 0),),
        lambda x, w: (twice(x, w)[1],),
        lambda x, w: (twice(x, w)[:, 1, 0, 0],),
        lambda x, w: (F.conv2d(x, w),),
    ],
    ids=["as_strided", "as_strided_copy", "view from within", "elements from within", "one convolution"],
)
def test_what_would_not_be_as_before_stays(program):
    module = traced(program, IMAGE, KERNEL)
    assert not channels_last(module.graph, traits)


def test_random_numbers_are_drawn_in_eagers_order():
    def program(x, w):
        return (torch.rand_like(twice(x, w)),)

    module = traced(program, IMAGE, KERNEL)
    channels_last(module.graph, traits)
    (drawn,) = (n for n in module.graph.nodes if n.target is aten.rand_like.default)
    assert drawn.meta["val"].is_contiguous() and drawn.args[0].meta["val"].is_contiguous()


def test_permuted_results_keep_their_strides():
    checked(lambda x, w: (twice(x, w).transpose(1, 3).contiguous().transpose(1, 3).relu(),), IMAGE, KERNEL)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: (F.conv2d(x, torch.cat([w] * 64)), F.conv2d(x, torch.cat([w] * 65))),
        lambda x, w: (F.conv1d(x[:, :, 0], w[:, :, 0]), F.conv1d(x[:, :, 1], w[:, :, 0])),
        lambda x, w: (F.conv2d(x.double(), w.double()), F.conv2d(x.double(), -w.double())),
        lambda x, w: (x @ x, w),
    ],
    ids=["heavy weight", "one dimension", "dtype", "no convolution"],
)
def test_what_gains_nothing_stays(program):
    module = traced(program, IMAGE[:, :, :4, :4].contiguous(), KERNEL)
    before = str(module.graph)
    assert not channels_last(module.graph, traits) and str(module.graph) == before


def test_another_device_stays():
    module = traced(lambda x, w: (twice(x, w),), IMAGE, KERNEL)
    assert not channels_last(module.graph, lambda device: replace(traits(device), channels_last=()))


def test_symbolic_sizes_stay_as_they_are():
    mode = FakeMode(ShapeEnv())
    x = mode.from_tensor(IMAGE, source="x", policy=[DimPolicy.DYNAMIC] + [DimPolicy.STATIC] * 3)
    w = mode.from_tensor(KERNEL, source="w", policy=[DimPolicy.STATIC] * 4)
    module = aotgrad.trace_inference(lambda x, w: (twice(x, w),), [x, w]).module
    assert not channels_last(module.graph, traits)


def test_images_saved_for_the_backward_have_channels_last():
    def program(x, w):
        return (F.conv2d(F.conv2d(x, w).relu(), w).sum(),)

    weight = KERNEL.clone().requires_grad_()
    mode = FakeMode(ShapeEnv())
    fakes = [mode.from_tensor(t, source=s, policy=[DimPolicy.STATIC] * 4) for s, t in (("x", IMAGE), ("w", weight))]
    joint = aotgrad.trace_joint(program, fakes)
    assert channels_last(joint.graph, traits) == 4
    partition = aotgrad.partition_default(joint)
    given = partition.backward.graph.find_nodes(op="placeholder")
    images = [
        node.meta["val"]
        for node, saved in zip(given, partition.saved)
        if saved.result is not None and node.meta["val"].dim() == 4 and node.meta["val"].shape[0] == 2
    ]
    assert images and all(image.is_contiguous(memory_format=LAST) for image in images)
    # The program's own image is there anyway: no copy of it is kept.
    assert {saved.input for saved in partition.saved if saved.input is not None} == {0, 1}
