"""Losses and their gradients. A reduction of 0 means none, 1 mean, 2 sum."""

from collections.abc import Sequence
from typing import Any

from symshapes.rules.copies import like
from symshapes.rules.layout import Size, TensorMeta, broadcast, fresh, same_shape
from symshapes.rules.pointwise import elementwise
from symshapes.rules.registry import rule


@rule("mse_loss", "l1_loss", "soft_margin_loss")
def loss(self: TensorMeta, target: TensorMeta, reduction: int = 1) -> TensorMeta:
    """An elementwise loss, reduced."""
    out = elementwise([self, target])
    return out if reduction == 0 else fresh((), self, out.dtype)


@rule("smooth_l1_loss", "huber_loss")
def loss_with_width(self: TensorMeta, target: TensorMeta, reduction: int = 1, beta: float = 1.0) -> TensorMeta:
    """An elementwise loss, reduced."""
    return loss(self, target, reduction)


@rule("soft_margin_loss_backward")
def soft_margin_loss_backward(
    grad_output: TensorMeta, self: TensorMeta, target: TensorMeta, reduction: int
) -> TensorMeta:
    """The gradient of the input."""
    return elementwise([target, self])


@rule("mse_loss_backward")
def loss_backward(grad_output: TensorMeta, self: TensorMeta, target: TensorMeta, *_: Any) -> TensorMeta:
    """The gradient of the input, row-major."""
    return _gradient(grad_output, self, target)


@rule("smooth_l1_loss_backward", "huber_loss_backward")
def loss_with_width_backward(grad_output: TensorMeta, self: TensorMeta, target: TensorMeta, *_: Any) -> TensorMeta:
    """The gradient of the input, row-major."""
    return _gradient(grad_output, self, target)


def _gradient(grad_output: TensorMeta, self: TensorMeta, target: TensorMeta) -> TensorMeta:
    return fresh(broadcast(grad_output.size, self.size, target.size), self)


@rule("binary_cross_entropy")
def binary_cross_entropy(
    self: TensorMeta, target: TensorMeta, weight: TensorMeta | None = None, reduction: int = 1
) -> TensorMeta:
    """An elementwise loss, reduced."""
    return like(self) if reduction == 0 else fresh((), self)


@rule("binary_cross_entropy_backward")
def binary_cross_entropy_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """The gradient of the input."""
    return like(self)


@rule("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: TensorMeta,
    target: TensorMeta,
    weight: TensorMeta | None = None,
    pos_weight: TensorMeta | None = None,
    reduction: int = 1,
) -> TensorMeta:
    """An elementwise loss, reduced."""
    operands = [meta for meta in (self, target, weight, pos_weight) if meta is not None]
    return elementwise(operands) if reduction == 0 else fresh((), self)


@rule("nll_loss_forward")
def nll_loss_forward(
    self: TensorMeta, target: TensorMeta, weight: TensorMeta | None, reduction: int, ignore_index: Size
) -> tuple[TensorMeta, TensorMeta]:
    """(N, C) or (C) log-probabilities and class indices to the loss and the total weight."""
    rank = len(self.size)
    if rank not in (1, 2):
        raise RuntimeError("input tensor should be 1D or 2D")
    if len(target.size) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if rank == 2 and len(target.size) == 1 and self.size[0] != target.size[0]:
        raise RuntimeError(f"size mismatch (got input: {list(self.size)}, target: {list(target.size)})")
    scalar = fresh((), self)
    if reduction == 0 and rank == 2:
        return fresh((self.size[0],), self), scalar
    return scalar, scalar


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """The gradient of the log-probabilities."""
    return fresh(self.size, self)


@rule("nll_loss2d_forward")
def nll_loss2d_forward(
    self: TensorMeta, target: TensorMeta, weight: TensorMeta | None, reduction: int, ignore_index: Size
) -> tuple[TensorMeta, TensorMeta]:
    """(N, C, H, W) log-probabilities and (N, H, W) class indices to the loss and the total weight."""
    scalar = fresh((), self)
    if reduction == 0:
        return fresh((self.size[0], *self.size[2:]), self), scalar
    return scalar, scalar


@rule("multi_margin_loss")
def multi_margin_loss(
    self: TensorMeta,
    target: TensorMeta,
    p: Any = 1,
    margin: Any = 1,
    weight: TensorMeta | None = None,
    reduction: int = 1,
) -> TensorMeta:
    """One loss a row, reduced."""
    if len(self.size) == 2 and len(target.size) == 1 and target.size[0] != self.size[0]:
        raise RuntimeError(f"inconsistent target size, expected {self.size[0]} but got {list(target.size)}")
    return fresh(target.size if reduction == 0 and len(self.size) == 2 else (), self)


@rule("multilabel_margin_loss_forward")
def multilabel_margin_loss(self: TensorMeta, target: TensorMeta, reduction: int) -> tuple[TensorMeta, TensorMeta]:
    """One loss a row, reduced, and which classes are targets."""
    if not same_shape(self.size, target.size):
        raise RuntimeError(f"inconsistent target size: {list(target.size)} for input of size: {list(self.size)}")
    rows = self.size[:1] if reduction == 0 and len(self.size) == 2 else ()
    return fresh(rows, self), fresh(target.size, self)


@rule("multi_margin_loss_backward", "multilabel_margin_loss_backward")
def margin_loss_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any, **__: Any) -> TensorMeta:
    """The gradient of the input, row-major."""
    return fresh(self.size, self)


@rule("_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor")
def use_library_for_ctc_loss(*_: Any) -> bool:
    """Never: which those take depends on what lengths hold; torch's own kernel takes all, and computes the same."""
    return False


@rule("_ctc_loss")
def ctc_loss(
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    *_: Any,
) -> tuple[TensorMeta, TensorMeta]:
    """As lengths that are numbers say."""
    return ctc_tables(log_probs, 2 * max(target_lengths, default=0) + 1)


def ctc_tables(log_probs: TensorMeta, width: Size) -> tuple[TensorMeta, TensorMeta]:
    """A loss for each sequence, and what its backward reads: for each step a number for each label of the longest target and the blanks
    around them, so many in all."""
    steps, batch, _ = log_probs.size
    return fresh((batch,), log_probs), fresh((batch, steps, width), log_probs)


@rule("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def ctc_loss_backward(grad: TensorMeta, log_probs: TensorMeta, *_: Any) -> TensorMeta:
    """Row-major."""
    return fresh(log_probs.size, log_probs)
