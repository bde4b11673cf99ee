"""What changed between captures, kept in a file, so that another process has it symbolic at its first capture.

In: code, and the places of its frames whose numbers changed. Out: the same again. What a file says chooses what is
symbolic and nothing else, so that a wrong one costs time and no result.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Hashable, Iterable
from pathlib import Path
from types import CodeType
from typing import Any

_LARGEST = 1 << 24
#: What is kept of codes, those that changed last.
_MOST = 4096


def changed_before(file: str | os.PathLike[str], code: CodeType) -> set[Hashable]:
    """The places of a code's frames whose numbers changed in earlier processes; none where the file tells nothing."""
    return set(map(tuple, _read(Path(file)).get(_key(code), [])))


def note_changed(file: str | os.PathLike[str], code: CodeType, places: Iterable[Hashable]) -> None:
    """Add what changed. A folder that cannot be written leaves it untold; of two writers at once the last one is heard."""
    path = Path(file)
    known = _read(path)
    mine = {tuple(place) for place in known.pop(_key(code), [])} | {place for place in places if type(place) is tuple}
    known[_key(code)] = sorted(map(list, mine), key=repr)
    for old in list(known)[:-_MOST]:
        del known[old]
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w") as out:
                json.dump(known, out)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)


def _read(path: Path) -> dict[str, list[list[Any]]]:
    """What the file says; nothing where it is none of ours."""
    try:
        with path.open("rb") as opened:
            found = json.loads(opened.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {code: places for code, places in found.items() if isinstance(places, list) and all(map(_is_place, places))}


def _is_place(place: Any) -> bool:
    return isinstance(place, list) and all(isinstance(part, (str, int)) for part in place)


def _key(code: CodeType) -> str:
    """A code object's name and content: where its file lies may differ from process to process."""
    content = hashlib.sha256(code.co_code + repr((code.co_names, code.co_varnames)).encode()).hexdigest()[:24]
    return f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_qualname} {content}"
