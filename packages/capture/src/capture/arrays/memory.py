"""Arrays and the tensors over their memory: what is written to one is in the other, and arrays that overlap are of one storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .dtypes import torch_dtype


def tensor_over(array: Any) -> torch.Tensor:
    """The tensor over an array's memory; of a scalar of NumPy's, which nobody writes to, over a copy.

    Raises ``NotImplementedError`` where no tensor can be, or what else lies over that memory cannot be told.
    """
    if isinstance(array, np.generic):
        torch_dtype(array.dtype)
        return torch.from_numpy(np.array(array))
    dtype = torch_dtype(array.dtype)
    if not array.flags.writeable:
        raise NotImplementedError("an array that may not be written to")
    base = array.base
    if base is None:
        return torch.from_numpy(array)
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if type(base) is np.ndarray:
        start, storage = base.__array_interface__["data"][0], torch.from_numpy(_bytes_of(base)).untyped_storage()
    elif type(base) in (torch.Tensor, torch.nn.Parameter) and base.device.type == "cpu":
        storage = base.untyped_storage()
        start = storage.data_ptr()
    else:
        raise NotImplementedError(f"an array over memory of a {type(base).__name__}")
    offset, apart = divmod(array.__array_interface__["data"][0] - start, array.itemsize)
    strides = [divmod(stride, array.itemsize) for stride in array.strides]
    if apart or any(rest or stride < 0 for stride, rest in strides):
        raise NotImplementedError("an array whose elements lie backwards, or between others")
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, offset, array.shape, [each for each, _ in strides])


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All the memory of an array that owns it, whatever it holds and in whatever order."""
    order = array.ravel(order="K")
    if not np.shares_memory(order, array) and array.size:
        raise NotImplementedError("an array whose memory has gaps")
    return order.view(np.uint8)


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The array over a tensor's memory, as a program gets it."""
    return tensor.detach().numpy()


def read_only_array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same that nobody may write to."""
    found = tensor.detach().numpy()
    found.flags.writeable = False
    return found


def turned(array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The view of an array that runs backwards along some dimensions."""
    return np.flip(array, dims)


def scalar_of(tensor: torch.Tensor) -> Any:
    """The scalar of NumPy's that a tensor without dimensions holds."""
    return tensor.detach().numpy()[()]
