"""Tracebacks of exceptions that leave captured code: through the user's lines, each once.

In: the traceback as the interpreter has it. Out: the same without what this project put between the user's frames.
"""

from __future__ import annotations

import opcode
import weakref
from types import CodeType, TracebackType

from capture._native import is_over
from symshapes import is_generated, is_own_file

from .identity_map import IdentityMap
from .resume import origin_of

_RAISE = opcode.opmap["RAISE_VARARGS"]

#: What a code runs in place of; None: a stand-in.
_originals: IdentityMap[CodeType, tuple[weakref.ref[CodeType] | None]] = IdentityMap()


def note_stand_in(code: CodeType) -> None:
    """Note a function that was made only to have a frame to capture: it is not shown."""
    _originals[code] = (None,)


#: By the code of a function that raises an exception anew: where that was raised, or passed.
_raised_in: IdentityMap[CodeType, weakref.ref[CodeType]] = IdentityMap()


def note_raiser(raiser: CodeType, original: CodeType) -> None:
    """Note a function that stands for a frame which an exception passed while that was evaluated."""
    _raised_in[raiser] = weakref.ref(original)


def note_replacement(replacement: CodeType, original: CodeType) -> None:
    """Note what a code runs in place of."""
    _originals[replacement] = (weakref.ref(original),)


def without_ours(traceback: TracebackType) -> TracebackType:
    """The same traceback objects, linked past ours; unchanged if none would be left.

    What follows a frame that this was asked for as the exception left it is as it should be: of deep recursion each frame asks.
    """
    entries: list[TracebackType] = []
    entry: TracebackType | None = traceback
    while entry is not None:
        entries.append(entry)
        frame = entry.tb_frame
        if len(entries) > 1 and _originals.get(frame.f_code) is not None and is_over(frame):
            break
        entry = entry.tb_next
    rest = entries[-1].tb_next
    codes = [_original(each.tb_frame.f_code) for each in entries]
    kept = [
        each
        for each, code in zip(entries, codes, strict=True)
        if code is not None and not is_generated(code) and not is_own_file(code.co_filename)
    ]
    # A frame was left for what goes on from it, which shows where that is now.
    kept = [
        each for each, then in zip(kept, (*kept[1:], rest), strict=True) if then is None or not _goes_on_in(each, then)
    ]
    if len(kept) == len(entries):
        return traceback
    if not kept:
        return rest or traceback
    for each, following in zip(kept, (*kept[1:], rest), strict=True):
        if each.tb_next is not following:
            each.tb_next = following
    return kept[0]


def _goes_on_in(frame: TracebackType, following: TracebackType) -> bool:
    """Whether a frame was left for a resume function: the same function, further on."""
    code, then = frame.tb_frame.f_code, following.tb_frame.f_code
    if code.co_code[frame.tb_lasti] == _RAISE:  # once more, by name: that is another place which it passes
        return False
    raised_in = _raised_in.get(then)
    if raised_in is not None:
        place = raised_in()
        return _raised_in.get(code) is None and place is not None and _function(place) is _function(code)
    # Meanwhile it is hidden: what goes on has its caller, and what it called has itself.
    if following.tb_frame.f_back is not frame.tb_frame.f_back:
        return False
    return origin_of(_original(then) or then) is not None


def _function(code: CodeType) -> CodeType | None:
    """The code of the user's function that a code is, runs in place of, or goes on from."""
    original = _original(code)
    origin = None if original is None else origin_of(original)
    return original if origin is None else origin.code


def _original(code: CodeType) -> CodeType | None:
    """What a code stands for; None for a stand-in."""
    known = _originals.get(code)
    if known is None:
        return code
    original = None if known[0] is None else known[0]()
    if original is None:
        return None
    origin = origin_of(original)
    return None if origin is not None and _original(origin.code) is None else _original(original)
