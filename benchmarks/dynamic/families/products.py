"""Matrix products, convolutions, pooling, attention and the layers made of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.registry import Family, over

row = Family("products and convolutions")

row("matmul_rows", lambda x, w: x @ w, "n 4", "4 6")
row("matmul_inner", lambda x, y: x @ y, "4 n", "n 6")
row("matmul_all", lambda x, y: x @ y, "n m", "m 2*n")
row("matrix_vector", lambda x, y: x @ y, "n m", "m")
row("dot_product", lambda x, y: x @ y, "n", "n")
row("batched_matmul", lambda x, y: torch.bmm(x, y), "n 3 m", "n m 4")
row("broadcast_matmul", lambda x, y: x @ y, "n 1 3 m", "2 m 4")
row("gram_matrix", lambda x: x @ x.T, "n 4")
row("einsum_attention", lambda q, k: torch.einsum("bqd,bkd->bqk", q, k), "n m 4", "n 6 4")
row("einsum_outer", lambda x, y: torch.einsum("i,j->ij", x, y), "n", "m")
row("linear_layer", lambda: nn.Linear(4, 6), made=True)
row("linear_three_dims", lambda: nn.Linear(4, 6), "n m 4", made=True)
row("mlp", lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), made=True)
row("bilinear_form", lambda: nn.Bilinear(3, 4, 5), "n 3", "n 4", made=True)
row("addmm_and_baddbmm", lambda x, y, z: (torch.addmm(z, x, y), torch.addmm(z, x, y, alpha=0.5)), "n m", "m 4", "n 4")
row("kron", lambda x, y: torch.kron(x, y), "n 2", "3 m")
row("outer_and_cross", lambda x, y: (torch.outer(x[:, 0], y[:, 0]), torch.linalg.cross(x, y)), "n 3", "n 3")
row("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [0])), "n m 2", "m 3")
row("cdist", lambda x, y: torch.cdist(x, y), "n 3", "m 3")
row("conv1d", lambda: nn.Conv1d(3, 4, 3, padding=1), "2 3 n", made=True)
row("conv1d_strided", lambda: nn.Conv1d(3, 4, 3, stride=2), "m 3 n", made=True)
row("conv2d_batch", lambda: nn.Conv2d(3, 4, 3), "n 3 6 6", made=True)
row("conv2d_image", lambda: nn.Conv2d(3, 4, 3, padding=1), "2 3 n+3 m+3", made=True)
row("conv2d_strided", lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), "2 3 n+3 m+3", made=True)
row("conv2d_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, dilation=2), "2 4 n+5 m+5", made=True)
row("conv_transpose2d", lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), "2 3 n m", made=True)
row("max_pool_odd_even", lambda x: F.max_pool2d(x, 2), "2 3 n+3 m+3", sizes=over((5, 8, 11, 12, 7), (8, 5, 6, 9, 4)))
row("avg_pool_padded", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), "2 3 n+3 m+3")
row("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), "2 3 n m")
row("adaptive_avg_pool_rows", lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1), "n m 4")
row("max_pool_ceil", lambda x: F.max_pool1d(x, 3, stride=2, ceil_mode=True), "2 3 n+3")
row("layer_norm", lambda: nn.LayerNorm(4), "n m 4", made=True)
row("group_norm", lambda: nn.GroupNorm(2, 4), "2 4 n m", made=True)
row("batch_norm_eval", lambda: nn.BatchNorm2d(3).eval(), "n 3 m 4", made=True)
row("batch_norm_training", lambda: nn.BatchNorm1d(4), made=True)
row("attention_sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "2 2 n 4", "2 2 m 4", "2 2 m 4")
row("attention_causal", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), "2 2 n 4")
row(
    "attention_masked",
    lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
    "2 2 n 4",
    "2 2 m 4",
    "n m",
)
row("embedding", lambda: nn.Embedding(3, 4), "n m:i", made=True)
row("embedding_bag", lambda: nn.EmbeddingBag(3, 4), "n m:i", made=True)
row("multihead_attention", lambda: nn.MultiheadAttention(8, 2, batch_first=True), *(["n m 8"] * 3), made=True)
row("interpolate_by_factor", lambda x: F.interpolate(x, scale_factor=2.0), "2 3 n m")
row("interpolate_places", lambda x, y: F.interpolate(x, y.shape, mode="bicubic"), "2 6 15 14", "n m")
row("interpolate_to_size", lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="bilinear"), "2 3 n m", "2 3 m n")
row("unfold_fold", lambda x: F.unfold(x, 3, padding=1), "2 3 n m")
row("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=1), "n m", "n m")
