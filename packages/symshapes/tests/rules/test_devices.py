"""Rules that differ by device, foretold without a GPU, and functional forms beside eager's own."""

from __future__ import annotations

import pytest
import torch

from symshapes import FakeMode

aten = torch.ops.aten


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_max_unpool2d_on_a_gpu_is_row_major(device):
    if device == "cuda" and not torch.backends.cuda.is_built():
        pytest.skip("this build of torch has no CUDA tensors")
    with FakeMode():
        values = torch.zeros(2, 3, 2, 2, device=device).to(memory_format=torch.channels_last)
        places = torch.zeros(2, 3, 2, 2, device=device, dtype=torch.int64).to(memory_format=torch.channels_last)
        out = aten.max_unpool2d(values, places, [4, 4])
    assert out.stride() == ((48, 1, 12, 3) if device == "cpu" else (48, 16, 4, 1))


def test_the_functional_batch_norm_gives_running_statistics(oracle):
    x, vectors = torch.randn(5, 4, 3), [torch.rand(4) for _ in range(4)]
    with oracle:
        aten._batch_norm_with_update_functional(x, *vectors, 0.5, 1e-5)
        aten._batch_norm_with_update_functional(x, None, None, *vectors[2:], 0.5, 1e-5)
    oracle.check()
    assert not oracle.missing


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this build of torch has no CUDA tensors")
def test_what_cudnn_samples_lies_row_major():
    """Images lie channels last; torch asks cuDNN where edges are aligned."""
    with FakeMode():
        images = torch.zeros(2, 3, 8, 8, device="cuda").to(memory_format=torch.channels_last)
        grid = torch.nn.functional.affine_grid(torch.zeros(2, 2, 3, device="cuda"), [2, 3, 4, 5], align_corners=True)
        out = torch.nn.functional.grid_sample(images, grid, align_corners=True)
        of_images, of_grid = aten.cudnn_grid_sampler_backward(images, grid, out)
        points = aten.cudnn_affine_grid_generator(torch.zeros(2, 2, 3, device="cuda"), 2, 3, 4, 5)
        of_points = aten.cudnn_affine_grid_generator_backward(points, 2, 3, 4, 5)
    assert (out.shape, out.stride(), out.device.type) == ((2, 3, 4, 5), (60, 20, 5, 1), "cuda")
    assert (of_images.shape, of_images.stride()) == ((2, 3, 8, 8), (192, 64, 8, 1))
    assert (of_grid.shape, of_grid.stride()) == ((2, 4, 5, 2), (40, 10, 2, 1))
    assert (points.shape, of_points.shape) == ((2, 4, 5, 2), (2, 2, 3))
