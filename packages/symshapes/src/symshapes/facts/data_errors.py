"""Which operators' kernels may raise by what is in their arguments, and not by metadata, which fakes refuse as well.

In: an operator's name, and what else is true of it. Out: by what. The names here are of those that never do: what is not known to be so may.
"""

from typing import Any

NOTHING, INTEGERS, ANYTHING = "nothing", "integers", "anything"
"""By nothing; by integers, as places out of range are and divisors of zero; by whatever they hold."""

#: Pointwise operators that compute no element for some integers.
_DIVIDING = frozenset(
    {"div", "divide", "floor_divide", "true_divide", "remainder", "fmod", "__ifloordiv__", "__rfloordiv__"}
)
#: What torch has for places in another argument's tensors.
_PLACES = frozenset(
    {
        "embedding", "gather", "index", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "index_select", "put",
        "scatter", "scatter_add", "scatter_reduce", "take", "take_along_dim",
    }
)  # fmt: skip
#: What computes whatever it is given, beside what its tags say.
_NEVER = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_cdist_forward", "_conj_physical", "_convolution", "_convolution_mode",
        "_cudnn_rnn", "_efficient_attention_forward", "_euclidean_dist", "_flash_attention_forward", "_int_mm", "_log_softmax",
        "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
        "_pdist_forward", "_prelu_kernel", "_safe_softmax", "_scaled_mm", "_softmax", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
        "_to_copy", "_trilinear", "_unique2", "_unsafe_view", "_weight_norm_interface", "adaptive_avg_pool1d", "adaptive_max_pool2d",
        "adaptive_max_pool3d", "addbmm", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort",
        "avg_pool2d", "avg_pool3d", "baddbmm", "batch_norm_stats", "bitwise_not", "block_diag", "bmm", "bucketize", "cat", "channel_shuffle",
        "clone", "col2im", "constant_pad_nd", "convolution", "convolution_overrideable", "copy", "count_nonzero", "cross", "cudnn_affine_grid_generator",
        "cudnn_batch_norm", "cudnn_grid_sampler",
        "cummax", "cummin", "cumprod", "cumsum", "detach", "diag_embed", "diagonal_copy", "dot", "empty_like", "equal", "fill", "flip",
        "fractional_max_pool2d", "full_like", "glu", "grid_sampler_2d", "grid_sampler_3d", "gru", "huber_loss", "im2col", "isin",
        "kthvalue", "lift_fresh", "linalg_cross", "linalg_vector_norm", "linear", "log_sigmoid_forward", "logcumsumexp", "logsumexp", "lstm",
        "masked_fill", "masked_select", "max", "max_pool2d_with_indices", "max_pool3d_with_indices", "mean", "median", "min",
        "miopen_batch_norm", "mkldnn_rnn_layer", "mm", "mode", "mse_loss", "mv", "nan_to_num", "nanmedian", "nansum", "native_batch_norm",
        "native_channel_shuffle", "native_dropout", "native_group_norm", "native_layer_norm", "new_empty", "new_empty_strided", "new_full",
        "new_ones", "new_zeros", "nonzero", "norm", "ones_like", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "prod", "rand_like",
        "randint_like", "randn_like", "random", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "renorm", "repeat",
        "replication_pad1d", "replication_pad2d", "replication_pad3d", "resize", "rms_norm", "_fused_rms_norm", "rnn_relu", "rnn_tanh",
        "roll", "rot90", "scalar_tensor", "searchsorted", "set", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
        "smooth_l1_loss", "soft_margin_loss", "sort", "split_with_sizes_copy", "stack", "std", "std_mean", "sum", "topk", "trace", "tril",
        "triu", "unfold_copy", "uniform", "unique_consecutive", "unique_dim", "upsample_bicubic2d", "upsample_bilinear2d",
        "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_bicubic2d_aa",
        "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
        "upsample_trilinear3d", "var", "var_mean", "view_as_complex", "view_as_real", "where", "zero", "zeros_like",
    }
)  # fmt: skip
#: The same, whole families by how their names begin and end.
_NEVER_BEGIN = ("_foreach_", "_fused_ad", "_fused_sgd", "_fft_", "_scaled_dot_product_", "fft_")
_NEVER_END = ("_backward", "_backward_data", "_backward_input", "_backward_weights")


def data_errors(op: Any, *, elementwise: bool, composite: bool, views: bool) -> str:
    """By what in its tensors a kernel of an `OpOverload` may raise: `NOTHING`, `INTEGERS` or `ANYTHING`."""
    if op.namespace != "aten":
        return ANYTHING
    name = op._schema.name.partition("::")[2]
    name = name if name.endswith("__") else name.removesuffix("_")
    if name in _DIVIDING or name in _PLACES:
        return INTEGERS
    if elementwise or composite or views or name in _NEVER:
        return NOTHING  # what defines a composite one says it
    if name.startswith(_NEVER_BEGIN) or name.endswith(_NEVER_END):
        return NOTHING
    takes_tensors = any("Tensor" in str(argument.type) for argument in op._schema.arguments)
    return ANYTHING if takes_tensors else NOTHING
