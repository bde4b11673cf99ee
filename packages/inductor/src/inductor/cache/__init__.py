"""The disk cache: content-addressed entries of a few verified files each, shared by all processes of a user.

Flows in: a key (hex digest) and files. Flows out: `Entry`, or nothing where there is no sound one.
"""

from inductor.cache.place import Untrusted, cache_root, own_room, require_trusted, usable
from inductor.cache.scratch import scratch_folder, stale
from inductor.cache.store import Damaged, DiskCache, Entry, read_entry, reset

__all__ = [
    "Damaged",
    "DiskCache",
    "Entry",
    "Untrusted",
    "cache_root",
    "own_room",
    "read_entry",
    "require_trusted",
    "reset",
    "scratch_folder",
    "stale",
    "usable",
]
