"""Strides of elementwise results where the operands' memory layouts and sizes differ."""

import itertools

import pytest
import torch

aten = torch.ops.aten
SIZE = (2, 4, 3, 5)
LAYOUTS = {
    "row-major": lambda size: torch.rand(size),
    "channels last": lambda size: (
        torch.rand(size).contiguous(memory_format=torch.channels_last) if len(size) == 4 else torch.rand(size)
    ),
    "reversed": lambda size: torch.rand(size[::-1]).permute(*range(len(size))[::-1]),
    "strided": lambda size: torch.rand((*size, 2))[..., 0],
    "expanded": lambda size: torch.rand((1, *size[1:])).expand(size),
}
OTHER_SIZES = [SIZE, (4, 1, 5), (), (1, 4, 1, 1), (2, 1, 3, 1)]

BINARY = [
    aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.rsub.Tensor, aten.maximum.default, aten.lt.Tensor,
    aten.pow.Tensor_Tensor, aten.atan2.default, aten.mse_loss.default, aten.copysign.Tensor, aten.fmod.Tensor,
]  # fmt: skip
SAME_SIZE = [
    aten.sigmoid_backward.default, aten.tanh_backward.default, aten.silu_backward.default, aten.gelu_backward.default,
    aten.hardswish_backward.default, aten.mish_backward.default, aten.where.self, aten.cat.default,
]  # fmt: skip


@pytest.mark.parametrize("first", LAYOUTS)
def test_binary(first, oracle):
    for op, second, size in itertools.product(BINARY, LAYOUTS, OTHER_SIZES):
        other = LAYOUTS[second](size) if size else torch.rand(())
        with oracle:
            op(LAYOUTS[first](SIZE), other)
            op(other, LAYOUTS[first](SIZE))
    oracle.check()


@pytest.mark.parametrize("first", LAYOUTS)
def test_same_size(first, oracle):
    for op, second in itertools.product(SAME_SIZE, LAYOUTS):
        one, two = LAYOUTS[first](SIZE), LAYOUTS[second](SIZE)
        with oracle:
            if op is aten.where.self:
                op(one > 0.5, one, two)
            elif op is aten.cat.default:
                op([one, two], 1)
                torch.stack([one, two], 1)
            else:
                op(one, two)
    oracle.check()


@pytest.mark.parametrize("first", LAYOUTS)
def test_backward_ops_whose_loop_has_another_operand_order(first, oracle):
    for second in LAYOUTS:
        grad, value = LAYOUTS[first](SIZE), LAYOUTS[second](SIZE)
        with oracle:
            aten.threshold_backward.default(grad, value, 0)
            aten.leaky_relu_backward.default(grad, value, 0.1, False)
            aten.elu_backward.default(grad, 1.0, 1.0, 1.0, False, value)
            aten.log_sigmoid_backward.default(grad, value, torch.rand(SIZE))
            aten._prelu_kernel_backward.default(grad, value, torch.rand(SIZE))
            aten.native_dropout_backward.default(grad, value > 0.5, 2.0)
    oracle.check()


@pytest.mark.parametrize("first", LAYOUTS)
def test_one_operand(first, oracle):
    value = LAYOUTS[first](SIZE)
    with oracle:
        for fn in (torch.sin, torch.abs, torch.isnan, torch.clone, torch.zeros_like, torch.tril, torch.erf):
            fn(value)
        value + 1.0
        2**value
        value.pow(2)
        value.clamp(0.1, 0.5)
        value.masked_fill(value > 0.5, 0.0)
        value.cumsum(1)
        value.sort(2)
        value.topk(2, 1)
        value.softmax(-1)
        value.flip(1)
        value.roll(1, 2)
        value.repeat(2, 1, 1, 1)
        value.to(torch.float64)
        value.contiguous(memory_format=torch.channels_last)
        value.var(1)
        value.mean((0, 2))
        value.amax(3, keepdim=True)
        value.argmax(1)
        value[torch.tensor([0, 1])]
        value[:, :, torch.tensor([[0], [1]])]
        value[:, torch.tensor([0, 1]), :, torch.tensor([0, 1])]
        value.index_select(1, torch.tensor([0, 2]))
        value.scatter_add(1, torch.zeros(SIZE, dtype=torch.int64), value.contiguous())
        for draw in (aten.uniform, aten.normal_functional, aten.exponential, aten.cauchy, aten.log_normal, aten.random):
            draw(value)
        aten.geometric(value, 0.5)
        aten.bernoulli.Tensor(value, value)
        aten._standard_gamma_grad(value, value)
        aten.masked_scatter_backward(value, value > 0.5, SIZE)
        aten.grid_sampler_2d_backward(value, value, torch.rand(2, 3, 5, 2), 0, 0, False, [True, True])
        aten._dirichlet_grad(value, value, value)
    oracle.check()


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions_keep_channels_last(rank, transposed, dtype, oracle):
    spatial = rank - 2
    for batch, groups, stride in itertools.product([1, 16], [1, 2], [1, 2]):
        x = torch.rand(batch, 4, *[7] * spatial, dtype=dtype)
        w = torch.rand(4, 4 // groups, *[3] * spatial, dtype=dtype)
        if rank > 3:
            last = torch.channels_last if rank == 4 else torch.channels_last_3d
            x, w = x.contiguous(memory_format=last), w.contiguous(memory_format=last)
        else:
            w = w.permute(0, 2, 1).contiguous().permute(0, 2, 1)
        options = ([stride] * spatial, [1] * spatial, [1] * spatial, transposed, [0] * spatial, groups)
        with oracle:
            y = aten.convolution.default(x, w, None, *options)
            aten.convolution_backward.default(torch.ones_like(y), x, w, None, *options, [True, True, False])
    oracle.check()


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_in_one_dimension_make_their_input_contiguous(transposed, oracle):
    for batch, (channels, groups) in itertools.product([1, 2], [(1, 1), (4, 1), (4, 4)]):
        x = torch.rand(batch, 7, channels).transpose(1, 2)
        w = torch.rand(*((channels, 4 // groups) if transposed else (4, channels // groups)), 3)
        options = ([1], [1], [1], transposed, [0], groups)
        with oracle:
            y = aten.convolution.default(x, w, None, *options)
            if channels == 1:  # eager's stride of a dimension of size 1 depends on the kernel
                continue
            aten.convolution_backward.default(torch.ones_like(y), x, w, None, *options, [True, True, False])
    oracle.check()


@pytest.mark.parametrize("size", [(2, 0, 5, 5), (0, 3, 5, 5), (0, 0, 5, 5), (2, 0, 6), (1, 0, 3, 4, 4)])
def test_convolutions_of_nothing(size, oracle):
    weight = torch.rand(2, size[1], *[1] * (len(size) - 2))
    options = ([1], [0], [1], False, [0], 1)
    for x in (torch.rand(size), torch.rand(size).transpose(1, -1).contiguous().transpose(1, -1)):
        with oracle:
            aten.convolution.default(x, weight, None, *options)
    oracle.check()


@pytest.mark.parametrize("first", ["heads first", "length first", "batch second"])
def test_flash_attention_for_cpu(first, oracle):
    def heads() -> torch.Tensor:
        if first == "heads first":
            return torch.rand(2, 4, 6, 8, requires_grad=True)
        if first == "length first":
            return torch.rand(2, 6, 4, 8, requires_grad=True).transpose(1, 2)
        return torch.rand(6, 2, 4, 8, requires_grad=True).permute(1, 2, 0, 3)

    with oracle:
        q, k, v = heads(), heads(), heads()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    assert any("flash_attention_for_cpu_backward" in op for op in oracle.checked)
    oracle.check()


@pytest.mark.parametrize("first", LAYOUTS)
def test_tangents_lie_as_what_they_are_of(first, oracle):
    value = LAYOUTS[first](SIZE)
    with oracle:
        aten._new_zeros_with_same_feature_meta(torch.rand(SIZE), value)
        if first not in ("strided", "expanded"):  # whose memory goes on behind the last element
            aten._new_zeros_with_same_feature_meta(torch.rand(3, 2, 5), value, self_num_batch_dims=2)
    oracle.check()
