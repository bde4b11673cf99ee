"""What a call comes to, so that compiled code and eager can be compared: results, or the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """The dtype and the elements, in words (NaN is equal to itself so), of a tensor or each of a list; or the error's type and words."""
    try:
        made = fn(*args)
    except Exception as error:
        return type(error), str(error)
    made = made if isinstance(made, list) else [made]
    return [(each.dtype, str(each.tolist())) for each in made]
