"""Where the cache lies: in a folder that nobody but this user can write, or in a private temporary one.

Flows in: INDUCTOR_CACHE_DIR, XDG_CACHE_HOME, the home. Flows out: a `Place`, whose folders may be trusted. No compiled code
depends on anything read here.
"""

from __future__ import annotations

import atexit
import functools
import grp
import logging
import os
import pwd
import shutil
import stat
import threading
import warnings
from pathlib import Path

from inductor.cache.scratch import claimed_folder

FORMAT = 5
"""Of entries and their manifests; another one has a folder of its own."""
_FOLDER = f"v{FORMAT}"
GONE = ".gone-"
"""What is being removed is called so."""
_log = logging.getLogger("inductor")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DEFAULT_MEGABYTES = 4096


class Untrusted(OSError):
    """Somebody else could have written in a folder; the message says where and why."""


def cache_root() -> Path:
    """The folder that the environment names for the cache: INDUCTOR_CACHE_DIR, else `inductor` in the user's cache folder.

    It need not exist. Where it turns out to be unusable, a private temporary folder stands in for it.

    Raises:
        Untrusted: the user has no home.
    """
    given = os.environ.get("INDUCTOR_CACHE_DIR")
    if given:
        return Path(given).absolute()
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(caches):
        return Path(caches) / "inductor"
    home = os.path.expanduser("~")  # without HOME: what the password file says
    if not os.path.isabs(home):
        raise Untrusted("this user has no home directory")
    return Path(home) / ".cache" / "inductor"


def default_bound() -> int:
    """Bytes that one section of the cache may take: INDUCTOR_CACHE_MB."""
    given = os.environ.get("INDUCTOR_CACHE_MB", "")
    return (int(given) if given.isdigit() else _DEFAULT_MEGABYTES) << 20


def require_trusted(path: Path) -> None:
    """Check that nobody but this user and root can have written what lies in the folder `path`.

    That is so if each folder from the top down to it is theirs, and others may write in none; a parent where others may
    write is fine if its sticky bit keeps them from what is not their own (/tmp), since the next folder is checked too.

    Args:
        path: absolute, without symbolic links (`Path.resolve`).

    Raises:
        Untrusted: otherwise.
        OSError: a folder can't be looked at.
    """
    for folder in (*reversed(path.parents), path):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            raise Untrusted(f"{folder} is not a directory")
        if status.st_uid not in (0, os.geteuid()):
            raise Untrusted(f"{folder} belongs to another user")
        shared = others_may_write(status, folder)
        if shared and (folder == path or not status.st_mode & stat.S_ISVTX):
            raise Untrusted(f"other users may write in {folder}")


def others_may_write(status: os.stat_result, path: Path) -> bool:
    """Whether the mode lets other users than the owner write. A group of which the owner is the only member is no other."""
    mode = status.st_mode & _OTHERS_MAY_WRITE
    if mode == stat.S_IWGRP and _is_own_group(status.st_gid) and not _has_access_list(path):
        return False
    return mode != 0


@functools.cache
def _is_own_group(number: int) -> bool:
    """Whether this is the user's private group, as many systems make one for each user (their umask is 002)."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except (KeyError, OSError):
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _has_access_list(path: Path) -> bool:
    """Whether the group's bits may stand for other users' too."""
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except (OSError, AttributeError):
        return False


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder is this user's and nobody else may write in it."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE


def own_folder(path: Path) -> None:
    """Make sure of a folder that only this user can use, in a parent that is trusted; anything else there goes."""
    for _ in range(3):  # other processes do the same
        try:
            os.mkdir(path, 0o700)
            return
        except FileExistsError:
            pass
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode) and is_own(status):
            if status.st_mode & 0o077:
                os.chmod(path, 0o700)
            return
        discard(path)
    raise Untrusted(f"{path} can't be made a folder of this user's own")


def discard(path: Path) -> None:
    """Take away what lies at `path`, of whatever kind; at once for all who look there. Missing is fine.

    Raises:
        OSError: it can't be moved.
    """
    gone = path.with_name(f"{GONE}{unique()}")
    try:
        path.rename(gone)
    except FileNotFoundError:
        return
    if gone.is_dir() and not gone.is_symlink():
        shutil.rmtree(gone, ignore_errors=True)
    else:
        gone.unlink(missing_ok=True)


def unique() -> str:
    """A name nobody else uses: also not a forked child, nor a process of the same number on another machine."""
    return os.urandom(12).hex()


def usable(path: Path) -> bool:
    """Whether this user, and nobody else, can write in the folder `path`, which need not exist yet, and in those in it:
    libraries keep what they load in folders made with whatever umask was in force."""
    try:
        wanted = path.absolute()
        path = wanted
        while not path.exists() and path != path.parent:
            path = path.parent
        there, path = path == wanted, path.resolve()
        require_trusted(path)
        if there and not _closed(path):
            with os.scandir(path) as found:
                if any(map(_others_may_write_in, found)):
                    return False
    except (OSError, RuntimeError):
        return False
    return os.access(path, os.W_OK | os.X_OK)


def _closed(path: Path) -> bool:
    """Whether other users get no further than some folder on the way."""
    return any(not folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in (path, *path.parents))


def _others_may_write_in(item: os.DirEntry[str]) -> bool:
    try:
        status = item.stat(follow_symlinks=False)
    except FileNotFoundError:  # another process removed it
        return False
    return status.st_uid not in (0, os.geteuid()) or others_may_write(status, Path(item.path))


class Place:
    """The folders of one setting: the one it names, and once that fails a private temporary one."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._main: Path | None = None
        self._main_writable = False
        self._why: object = "it is read-only"
        self._spare: Path | None = None
        self._spare_of = 0
        self._checked = False

    def readable(self) -> list[Path]:
        """Folders whose content may be trusted, the preferred one first."""
        self._check()
        return [folder for folder in (self._main, self._spare) if folder is not None]

    def writable(self) -> Path:
        """The folder to write in.

        Raises:
            OSError: not even a temporary folder can be made.
        """
        self._check()
        if self._main is not None and self._main_writable:
            return self._main
        with self._lock:
            if self._spare is None or self._spare_of != os.getpid():  # a forked child's parent removes its own
                self._spare = private_folder()
                self._spare_of = os.getpid()
                _warn_once(
                    f"{self._main or 'the compile cache'} can't be used ({self._why}): what is compiled is kept in a "
                    "temporary folder; INDUCTOR_CACHE_DIR may name another one"
                )
            return self._spare

    def give_up(self, why: object) -> None:
        """Write no more in the named folder; what is there may still be read. One warning a process says so."""
        self._main_writable = False
        self._why = why

    def recheck(self) -> None:
        """Look at the folders again at the next use (they were removed, say)."""
        self._checked = False

    def _check(self) -> None:
        if self._checked:
            return
        with self._lock:
            if self._checked:
                return
            try:
                root = cache_root() if self._root is None else self._root.absolute()
                _make_parents(root)
                root = root.resolve()
                require_trusted(root)
                main = root / _FOLDER
                self._main_writable = _own_or_read_only(main)
                self._main = main
            except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
                self._main = None
                self.give_up(error)
            self._checked = True


def own_room(name: str) -> Path:
    """A folder in the cache for another library to keep its files in.

    Raises:
        OSError: not even a temporary one can be made.
    """
    base = place_of(None).writable()
    for folder in (base, base / name):
        own_folder(folder)
    return base / name


def _make_parents(path: Path) -> None:
    """`mkdir -p`, but nobody else may write in what is made, whatever the umask."""
    missing = [path]
    while not missing[-1].exists() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for folder in reversed(missing[:-1]):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue


def _own_or_read_only(path: Path) -> bool:
    """Make or check the folder; whether it can be written."""
    try:
        own_folder(path)
    except Untrusted:
        raise
    except OSError:
        if not (path.is_dir() and not path.is_symlink() and is_own(os.lstat(path))):
            raise
    return os.access(path, os.W_OK | os.X_OK)


_temporary: dict[Path, int] = {}
"""Private folders, and the process that removes them (another one, if it is killed: they are claimed until it ends)."""


def private_folder() -> Path:
    """A new folder of this process alone, removed when it ends.

    Raises:
        OSError: there is no place for one.
    """
    failures = []
    for base in (None, "/dev/shm"):
        try:
            folder, _ = claimed_folder(base)
        except OSError as error:
            failures.append(error)
            continue
        if not _temporary:
            atexit.register(_remove_temporary)
        _temporary[folder] = os.getpid()
        return folder
    raise failures[0]


def _remove_temporary() -> None:
    for folder, process in _temporary.items():
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


_warned = False


def _warn_once(message: str) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # an error by the user's filters; but it is no error of the user's program
        _log.warning(message)


_places: dict[tuple[str, str], Place] = {}
_places_lock = threading.Lock()


def _renew_locks() -> None:
    """In a forked child: another thread, which isn't there, may have held them."""
    global _places_lock
    _places_lock = threading.Lock()
    for place in _places.values():
        place._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


def place_of(root: Path | None) -> Place:
    """The place of a root; None: the environment's."""
    if root is not None:
        setting = str(root), ""
    else:
        setting = (
            "",
            f"{os.environ.get('INDUCTOR_CACHE_DIR')}:{os.environ.get('XDG_CACHE_HOME')}:{os.environ.get('HOME')}",
        )
    with _places_lock:
        found = _places.get(setting)
        if found is None:
            found = _places[setting] = Place(root)
        return found
