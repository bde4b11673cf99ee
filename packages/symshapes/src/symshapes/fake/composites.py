"""Composite ops whose C++ works with plain ints only, written again for symbolic sizes.

They take the same way as the C++: the same ops run, in the same order, wherever that does not hang on a size's value.
Where the C++ would ask a hundred questions about sizes for what their expressions show, they are shorter ways to the same.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

from symshapes import _torch
from symshapes.expr.symbols import SYMBOLIC, hint_of, is_open, is_unbacked
from symshapes.facts.layout import lies_in_order, same_size
from symshapes.fake.one_hot import one_hot
from symshapes.fake.products import linear, matmul, reshape
from symshapes.fake.resampling import RESAMPLING
from symshapes.fake.uncounted import UNCOUNTED, dropout
from symshapes.lazy import import_whole
from symshapes.rules.layout import broadcast, contiguous_strides, sure, wrap_dim
from symshapes.rules.registry import DataDependentError


def is_row_major(input: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    """`torch.Tensor.is_contiguous`."""
    if memory_format is torch.contiguous_format and lies_in_order(input.shape, input.stride()):
        return True
    return torch.Tensor.is_contiguous(input, memory_format=memory_format)


def contiguous(input: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    """`torch.Tensor.contiguous`."""
    if memory_format is torch.contiguous_format and lies_in_order(input.shape, input.stride()):
        return input
    return torch.Tensor.contiguous(input, memory_format=memory_format)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention`; where no fused kernel runs for the sizes met, products and a softmax do for all."""
    torchs = functools.partial(
        F.scaled_dot_product_attention, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    fused = _Fused()
    if attn_mask is not None and any(map(is_unbacked, attn_mask.shape)):
        attn_mask, by_products = _masked_by_sizes_in_data(fused, torchs, query, key, value, attn_mask)
        if by_products:
            return attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        whole = fused.again(query, key, value, attn_mask)
        if whole is None:
            raise DataDependentError(F.scaled_dot_product_attention)
        return whole
    if _is_fused(fused, torchs, query, key, value, attn_mask):
        whole = fused.again(query, key, value, attn_mask)
        return torchs(query, key, value, attn_mask) if whole is None else whole
    return attention_by_products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def attention_by_torch(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *options: Any, **named: Any
) -> Tensor:
    """The same where torch's C++ takes symbols, but for masks of which only the run tells whether they are repeated."""
    in_data = attn_mask is not None and any(map(is_unbacked, attn_mask.shape))
    chosen = attention if in_data else F.scaled_dot_product_attention
    return chosen(query, key, value, attn_mask, *options, **named)


def attention_by_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The same without a fused kernel."""
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
        rows, columns = query.shape[-2], key.shape[-2]
        attn_mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    attn_mask = _added(attn_mask, query)
    # Half of the scale to each factor, so that neither overflows.
    factor = (1.0 / math.sqrt(int(query.shape[-1])) if scale is None else scale) ** 0.5
    scores = matmul(query * factor, key.transpose(-2, -1) * factor)
    if attn_mask is not None:
        scores = scores.add_(attn_mask)
    weights = torch.ops.aten._safe_softmax.default(scores, -1)
    return matmul(torch.dropout(weights, dropout_p, True), value)


def _added(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """A mask as what is added to the scores."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    lowest = torch.zeros_like(mask, dtype=query.dtype)
    return lowest.masked_fill_(mask.logical_not(), float("-inf"))


class _Fused(TorchDispatchMode):
    """Notes the one kernel that computes attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        self.given: list[Tensor | None] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "_scaled_dot_product" in func.name():
            self.seen = func, args, kwargs or {}
        return func(*args, **(kwargs or {}))

    def again(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
        """The same kernel with tensors of sizes that may be 1 or more; None where torch is to choose for them again.

        Torch asks whether the mask's sizes are 1 before it asks whether they are those of the scores.
        """
        env = query.fake_mode.shape_env  # type: ignore[attr-defined]
        in_data = mask is not None and any(map(is_unbacked, mask.stride()))
        if self.seen is None or env is None or not (env.has_open or in_data) or query.device.type != "cpu":
            return None
        func, args, kwargs = self.seen
        options = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if [id(one) for one in options[:3]] != [id(one) for one in self.given[:3]] or len(options) != 3 + (
            mask is not None
        ):
            return None
        if not (_alike(query, key, (0, 1, 3)) and _alike(query, value, (0, 1, 3)) and _alike(key, value, (2,))):
            return None
        if mask is not None and not _fits(mask, (*query.shape[:-1], key.shape[-2])):
            return None
        tensors = iter((query, key, value, _added(mask, query)))
        args, kwargs = tree_map_only(torch.Tensor, lambda _: next(tensors), (args, kwargs))
        return cast(Tensor, func(*args, **kwargs)[0])


def _masked_by_sizes_in_data(
    fused: _Fused, function: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[Tensor, bool]:
    """A mask that repeats or is as large as the scores, which only the run can tell, as large as they are; and whether
    products compute the attention. Raises DataDependentError where that too is for the run to tell."""
    if query.dim() < 2 or mask.dim() > query.dim():
        raise DataDependentError(F.scaled_dot_product_attention)
    scores = (*query.shape[:-1], key.shape[-2])
    wide = mask.expand(scores)
    kernels: set[Any] = set()
    for repeats in (True, False):
        sizes = [
            (1 if repeats else whole) if is_unbacked(mine) else mine
            for mine, whole in zip(mask.shape, scores[-mask.dim() :], strict=True)
        ]
        fused.seen = None
        if _is_fused(fused, function, query, key, value, mask, sizes) and fused.seen is None:
            raise DataDependentError(F.scaled_dot_product_attention)
        kernels.add(None if fused.seen is None else fused.seen[0])
    if len(kernels) > 1:
        raise DataDependentError(F.scaled_dot_product_attention)
    return wide, fused.seen is None


def _alike(one: Tensor, two: Tensor, dims: tuple[int, ...]) -> bool:
    return one.dim() == two.dim() == 4 and all(same_size(one.shape[dim], two.shape[dim]) for dim in dims)


def _fits(mask: Tensor, scores: tuple[Any, ...]) -> bool:
    """Whether each of a mask's sizes is the scores' or 1, for certain."""
    return mask.dim() == len(scores) and all(
        same_size(mine, whole) or (type(mine) is int and mine == 1)
        for mine, whole in zip(mask.shape, scores, strict=True)
    )


def _is_fused(
    fused: _Fused,
    function: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    mask_size: Sequence[int] | None = None,
) -> bool:
    """Whether `function` runs one kernel for all of it with tensors of the sizes met, or does it as only its C++ can."""
    if query.dtype not in (torch.float32, torch.float64):
        return True  # in half precision products are computed in another way
    mode = type(query.fake_mode)()  # type: ignore[attr-defined]
    try:
        with _disable_current_modes(), mode:
            fused.given = [*map(_of_hints, (query, key, value))]
            fused.given.append(None if attn_mask is None else _of_hints(attn_mask, mask_size))
            with fused:
                function(*fused.given)
    except (RuntimeError, ValueError):  # what it refuses, or sizes that nobody knows yet
        return True
    return fused.seen is not None


def _of_hints(tensor: Tensor, size: Sequence[int] | None = None) -> Tensor:
    """A tensor of the sizes met, or a row-major one of another size."""
    sizes, strides = ([hint_of(n) for n in numbers] for numbers in (tensor.shape, tensor.stride()))
    if size is not None:
        sizes, strides = list(size), list(contiguous_strides(size))
    made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_(tensor.requires_grad)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """`torch.kron`: each dimension is a pair of one, then of the other."""
    rank = max(input.dim(), other.dim())
    first = [1] * (rank - input.dim()) + list(input.shape)
    second = [1] * (rank - other.dim()) + list(other.shape)
    view = torch.ops.aten._unsafe_view.default
    left = view(input, [length for one in first for length in (one, 1)])
    right = view(other, [length for one in second for length in (1, one)])
    return view(left * right, [one * two for one, two in zip(first, second, strict=True)])


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """`torch.cdist`: by which kernel hangs on the sizes, and is left to the operator when it runs."""
    if compute_mode not in _CDIST_MODES or x1.dtype is not x2.dtype or x1.device.type != "cpu":
        return torch.cdist(x1, x2, p, compute_mode)
    return torch.ops.aten._cdist_forward.default(x1, x2, p, _CDIST_MODES[compute_mode])


def getitem(input: Tensor, index: Any) -> Tensor:
    """`input[index]`: a list of places that has symbols in it is a tensor of them, not their values."""
    parts = index if type(index) is tuple else (index,)
    if any(_has_symbols(part) for part in parts):
        parts = tuple(_places(part, input.device) if _has_symbols(part) else part for part in parts)
        index = parts if type(index) is tuple else parts[0]
    return torch.Tensor.__getitem__(input, index)


def _has_symbols(part: Any) -> bool:
    return isinstance(part, list) and any(type(place) is torch.SymInt for place in part)


def _places(places: list[Any], device: torch.device) -> Tensor:
    return torch.stack([torch.full((), place, dtype=torch.int64, device=device) for place in places])


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`torch.take_along_dim`: both are broadcast, but for the dimension, around which positions wrap, negative ones and others."""
    if dim is None:
        return input.view(-1).gather(0, indices.view(-1))
    if input.dim() != indices.dim():
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.dim()} dimensions for input, and {indices.dim()} dimensions for indices"
        )
    dim = wrap_dim(dim, input.dim())
    before, after = tuple(input.shape[:dim]), tuple(input.shape[dim + 1 :])
    lead, trail = broadcast(before, tuple(indices.shape[:dim])), broadcast(after, tuple(indices.shape[dim + 1 :]))
    places = indices.broadcast_to((*lead, indices.shape[dim], *trail))
    spread = input.broadcast_to((*lead, input.shape[dim], *trail))
    return spread.gather(dim, places.remainder(input.shape[dim]))


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`torch.nn.functional.max_pool1d`: the values are those of one row of a plane."""

    def flat(value: Any, across: int) -> list[Any]:
        return [across, *(value if isinstance(value, (tuple, list)) else [value])]

    steps = [] if stride is None or (isinstance(stride, (tuple, list)) and not stride) else flat(stride, 1)
    values, places = torch.ops.aten.max_pool2d_with_indices.default(
        input.unsqueeze(-2), flat(kernel_size, 1), steps, flat(padding, 0), flat(dilation, 1), ceil_mode
    )
    return (values.squeeze(-2), places.squeeze(-2)) if return_indices else values.squeeze(-2)


def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> Any:
    """`torch.tensor_split`: the first parts are longer by one, without a decision how many of them."""
    sections = named.get("sections", indices_or_sections)
    dim = wrap_dim(dim, input.dim())
    length = input.shape[dim]
    if type(sections) is not int or sections < 1 or type(length) is int or "indices" in named:
        return torch.tensor_split(input, indices_or_sections, dim, **named)
    least, longer = length // sections, length % sections
    starts = [at * least + torch.sym_min(at, longer) for at in range(sections)]
    return tuple(
        torch.ops.aten.slice.Tensor(input, dim, start, end)
        for start, end in zip(starts, [*starts[1:], length], strict=True)
    )


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """`torch.unsafe_chunk`."""
    length = input.shape[wrap_dim(dim, input.dim())]
    return torch.ops.aten.unsafe_split.Tensor(input, (length + chunks - 1) // chunks, dim)


def _gates(input: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    return F.linear(input, w_ih, b_ih), F.linear(hidden, w_hh, b_hh)


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`torch.lstm_cell`."""
    hidden, cell = hx
    one, two = _gates(input, hidden, w_ih, w_hh, b_ih, b_hh)
    into, forget, new, out = unsafe_chunk(two.add_(one), 4, 1)
    cell = (forget.sigmoid_() * cell).add_(into.sigmoid_() * new.tanh_())
    return out.sigmoid_() * cell.tanh(), cell


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """`torch.gru_cell`."""
    one, two = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    ones, twos = unsafe_chunk(one, 3, 1), unsafe_chunk(two, 3, 1)
    reset = twos[0].add_(ones[0]).sigmoid_()
    update = twos[1].add_(ones[1]).sigmoid_()
    new = ones[2].add(twos[2].mul_(reset)).tanh_()
    return (hx - new).mul_(update).add_(new)


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def cell(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Tensor:
        one, two = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
        return activation(two.add_(one))

    return cell


def functional_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`torch.nn.functional.dropout`."""
    if inplace or not 0.0 <= p <= 1.0:
        return F.dropout(input, p, training, inplace)
    return dropout(input, p, training)


def einsum(equation: Any, *operands: Any) -> Tensor:
    """`torch.einsum`. Raises DataDependentError where only the run can tell whether a dimension of 1 is repeated."""
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if isinstance(equation, str) and "." not in equation:
        lengths: dict[str, list[Any]] = {}
        given, arrow, kept = equation.replace(" ", "").partition("->")
        for labels, tensor in zip(given.split(","), tensors, strict=False):
            for label, length in zip(labels, tensor.shape, strict=False):
                lengths.setdefault(label, []).append(length)
        for label, (first, *others) in lengths.items():
            if others and is_open(first) and not (arrow and label in kept):
                bool(first == 1)  # guarded: then nothing is summed, and the product lies as that of elements does
            for other in others:
                told = not (is_unbacked(first) or is_unbacked(other)) or any(
                    type(length) is int and length == 1 for length in (first, other)
                )
                if not (told or sure(first == other)):
                    raise DataDependentError(torch.einsum)
    return torch.einsum(equation, *operands)


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """`torch.unflatten`: the C++ asks of a length in data whether it is -1, which a view's is checked not to be."""
    if isinstance(dim, int) and isinstance(sizes, (tuple, list)) and any(map(is_unbacked, sizes)):
        at = wrap_dim(dim, input.dim())
        return input.view([*input.shape[:at], *sizes, *input.shape[at + 1 :]])
    return torch.Tensor.unflatten(input, dim, sizes)  # type: ignore[no-untyped-call]


def _later(family: str, *functions: Any) -> dict[Any, Callable[..., Any]]:
    """The rows of a family's table `ROWS`, whose functions these are; the family is imported when one of them is called."""

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        return import_whole(f"symshapes.fake.{family}").ROWS[function](*args, **kwargs)

    return {function: functools.partial(call, function) for function in functions}


#: Those that symbols alone do not make necessary.
_ALWAYS: dict[Any, Callable[..., Any]] = {
    F.one_hot: one_hot,
    **_later("packing", _torch.PACK_PADDED, _torch.PAD_PACKED),
    **_later("recurrent", torch.gru, torch.lstm, torch.rnn_relu, torch.rnn_tanh),
    **_later("sequence_losses", F.ctc_loss, torch.ctc_loss),
}

COMPOSITES: dict[Any, Callable[..., Any]] = {
    torch.reshape: reshape,
    torch.Tensor.reshape: reshape,
    torch.Tensor.is_contiguous: is_row_major,
    torch.Tensor.contiguous: contiguous,
    torch.einsum: einsum,
    torch.Tensor.__getitem__: getitem,
    torch.cdist: cdist,
    torch.kron: kron,
    torch.Tensor.kron: kron,
    torch.take_along_dim: take_along_dim,
    torch.Tensor.take_along_dim: take_along_dim,
    torch.unflatten: unflatten,
    torch.Tensor.unflatten: unflatten,
    F.max_pool1d: max_pool1d,
    torch.max_pool1d: max_pool1d,
    torch.tensor_split: tensor_split,
    torch.Tensor.tensor_split: tensor_split,
    torch.unsafe_chunk: unsafe_chunk,
    torch.Tensor.unsafe_chunk: unsafe_chunk,
    torch.lstm_cell: lstm_cell,
    torch.gru_cell: gru_cell,
    torch.rnn_tanh_cell: _rnn_cell(torch.tanh),
    torch.rnn_relu_cell: _rnn_cell(torch.relu),
    torch.dropout: dropout,
    F.dropout: functional_dropout,
    F.scaled_dot_product_attention: attention_by_torch,
    **_ALWAYS,
    **RESAMPLING,
    **UNCOUNTED,
    **_later("averages", _torch.image_function("adaptive_avg_pool2d"), torch.adaptive_avg_pool1d),
    **_later("sequences", _torch.image_function("pad_sequence")),
    **_later("signals", _torch.plain_block_diag, _torch.plain_stft, torch.gradient, torch.linalg.multi_dot),
}

if _torch.MATMUL_NEEDS_INTS:
    COMPOSITES |= {
        torch.matmul: matmul,
        torch.Tensor.matmul: matmul,
        torch.Tensor.__matmul__: matmul,
        torch.Tensor.__rmatmul__: lambda right, left: matmul(left, right),
        torch.linalg.matmul: matmul,
        F.linear: linear,
        F.scaled_dot_product_attention: attention,
    }


_FUNCTIONS = (BuiltinFunctionType, FunctionType)


def taking_symbols(function: Any, arguments: Iterable[Any]) -> Any:
    """What is called in a function's place where numbers among its arguments (in lists too) are symbols, or steps many, or fakes tell less.

    A tensor that has symbolic sizes itself sees to it; one of plain sizes (`interpolate(weights, size=(n, m))`) does not, nor
    where numbers that tensors hold are sizes.
    """
    if (
        any(map(_is_symbol, arguments := tuple(arguments)))
        or (function in RESAMPLING and any(map(_is_number_in_tensor, arguments)))
        or (type(function) in _FUNCTIONS and function in _ALWAYS)
    ):
        owner = getattr(function, "__self__", None)
        if not isinstance(owner, Tensor):
            return COMPOSITES.get(function, function)
        composite = COMPOSITES.get(getattr(Tensor, function.__name__, None))
        return function if composite is None else functools.partial(composite, owner)
    return function


def _is_number_in_tensor(value: Any) -> bool:
    """Whether it is a number that a tensor holds, or a list with some."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_number_in_tensor, value))
    return isinstance(value, Tensor) and not value.dim()


def _is_symbol(value: Any) -> bool:
    return any(map(_is_symbol, value)) if isinstance(value, (list, tuple)) else type(value) in SYMBOLIC
