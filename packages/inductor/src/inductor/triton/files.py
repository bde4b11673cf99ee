"""Triton's files, verified: what is damaged is as good as none, so that Triton compiles it again.

Flows in: what Triton asks its cache manager. Flows out: files whose content is what was written, in Triton's own layout:
others who use its folder read ours, and what they wrote is believed as Triton believes it, if it is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from triton import knobs
from triton.runtime.cache import FileCacheManager

from inductor.cache import stale

_DIGEST = ".sha256"


def verify_files() -> None:
    """Let Triton verify what it reads, unless the user gave it a cache manager of another kind."""
    if knobs.cache.manager_class in (None, FileCacheManager):
        knobs.cache.manager_class = VerifiedFiles


class VerifiedFiles(FileCacheManager):
    """Triton's cache manager; beside each file lies its digest. Files that users dump and change are left alone."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        self._verified = not (override or dump)
        if self._verified:
            for item in stale(self.cache_dir, "tmp.pid_"):  # of a process that was killed
                shutil.rmtree(item.path, ignore_errors=True)

    def has_file(self, filename: str) -> bool:
        """Whether the file is there and sound."""
        if not self._verified:
            return bool(super().has_file(filename))
        path = Path(self._make_path(filename))
        try:
            content = path.read_bytes()
            written = Path(f"{path}{_DIGEST}").read_text()
        except FileNotFoundError:
            return path.is_file()
        except (OSError, ValueError):
            return False
        return hashlib.sha256(content).hexdigest() == written

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of files that belong together: all of them, or None."""
        group = f"__grp__{filename}"
        if not self.has_file(group):
            return None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            paths: dict[str, str] = json.loads(Path(self._make_path(group)).read_text())["child_paths"]
            if all(self.has_file(name) and path == self._make_path(name) for name, path in paths.items()):
                return paths
        return None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Write the file; until its digest is written, too, it is damaged."""
        path: str = super().put(data, filename, binary)
        if self._verified:
            content = data if isinstance(data, bytes) else str(data).encode()
            super().put(hashlib.sha256(content).hexdigest(), filename + _DIGEST, binary=False)
        return path
