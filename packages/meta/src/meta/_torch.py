"""The one file that touches private parts of torch; each name says why nothing public serves."""

from __future__ import annotations

import torch

# A tensor out of the handle that torch's stable C shim gives: the way from there to Python that torch has for itself.
tensor_of_handle = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr

# Whether any device's autocast is on, as one question; the public functions answer for one device each.
any_autocast = torch._C._is_any_autocast_enabled
