"""The disk cache: content-addressed entries of a few files each, shared by all processes of a user.

Flows in: a key (hex digest) and files. Flows out: the folder they lie in.
"""

from inductor.cache.store import DiskCache, cache_root, reset

__all__ = ["DiskCache", "cache_root", "reset"]
