"""The disk cache: whole and verified entries, one maker, a bound on size; what is damaged is made again."""

import errno
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path

import inductor_faults as faults
import pytest

from inductor.cache import DiskCache, cache_root, place, reset, scratch, store

KEY = "ab" * 32
OTHER = "ab" + "cd" * 31
FILES = {"a.txt": b"one" * 100, "b.bin": bytes(range(256))}


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process sees the cache."""
    monkeypatch.setattr(place, "_places", {})
    monkeypatch.setattr(place, "_warned", False)


def place_of(root: Path) -> Path:
    return root / f"v{place.FORMAT}"


def made(cache: DiskCache, key: str = KEY) -> bool:
    """What users of the cache do: take the entry, or make it. Whether it was made; what is got is right either way."""
    entry = cache.get(key)
    missing = entry is None
    if entry is None:
        with cache.lock(key):
            entry = cache.get(key) or cache.put(key, FILES)
    assert entry.files == FILES
    assert {name: entry.path(name).read_bytes() for name in FILES} == FILES
    return missing


def test_put_and_get(tmp_path: Path) -> None:
    cache = DiskCache("section", tmp_path)
    assert cache.get(KEY) is None and cache.is_empty()
    entry = cache.put(KEY, {"a.txt": b"1", "b.txt": b"2"})
    again = cache.get(KEY)
    assert again == entry and again.files == {"a.txt": b"1", "b.txt": b"2"}
    assert entry.path("a.txt").read_bytes() == b"1"
    assert cache.put(KEY, {"a.txt": b"other"}).files["a.txt"] == b"1"
    assert not cache.is_empty() and DiskCache("another", tmp_path).is_empty()
    cache.remove(KEY)
    assert cache.get(KEY) is None and cache.is_empty()
    assert list(entry.folder.parent.iterdir()) == []


def test_nobody_else_may_look(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        entry = DiskCache("section", tmp_path / "new" / "er").put(KEY, FILES)
    finally:
        os.umask(before)
    for folder in (tmp_path / "new", *entry.folder.parents[:4], entry.folder):
        if tmp_path / "new" in (folder, *folder.parents):
            assert folder.stat().st_mode & 0o777 == 0o700, folder
    assert {file.stat().st_mode & 0o777 for file in entry.folder.iterdir()} == {0o600}


def test_the_oldest_go_first(tmp_path: Path) -> None:
    cache = DiskCache("section", tmp_path, size_bound=1000)
    size = 300 - len(store._manifest("0" * 64, {"x": b""}))
    for at in range(3):
        folder = cache.put(f"{at}" * 64, {"x": b"." * size}).folder
        os.utime(folder, (at, at))
    assert cache.get("0" * 64) is not None  # used now
    cache.put("3" * 64, {"x": b"." * size})
    assert [cache.get(f"{at}" * 64) is not None for at in range(4)] == [True, False, True, True]
    half = place_of(tmp_path) / "section" / "00" / ".new-of-the-dead"
    half.mkdir()
    os.utime(half, (0, 0))
    cache.put("4" * 64, {"x": b"." * size})
    assert not half.exists()


def test_eviction_leaves_locks(tmp_path: Path) -> None:
    """A lock file that is removed while it is held would let the next one in."""
    cache = DiskCache("section", tmp_path, size_bound=0)
    with cache.lock(KEY):
        cache.put(KEY, FILES)
        (held,) = list(place_of(tmp_path).rglob(".locks/*"))
        for at in range(5):
            cache.put(f"{at}" * 64, FILES)
        assert cache.get(KEY) is None
        assert held.exists()
        context = multiprocessing.get_context("fork")  # a fresh interpreter would spend seconds importing torch
        entered = context.Event()
        process = context.Process(target=_enter, args=(tmp_path, entered))
        process.start()
        assert not entered.wait(0.3)
    assert entered.wait(30)
    process.join()


def _enter(root: Path, entered) -> None:
    with DiskCache("section", root).lock(KEY):
        entered.set()


def test_a_lock_within_a_lock(tmp_path: Path) -> None:
    """A compile within a compile: whichever lock file the two keys share."""
    cache = DiskCache("section", tmp_path)
    with cache.lock(KEY), cache.lock(OTHER), cache.lock(KEY):
        assert made(cache)


def test_a_lock_that_is_never_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LOCK_SECONDS", 0.05)
    cache = DiskCache("section", tmp_path)
    made(cache, OTHER)
    (path,) = list(place_of(tmp_path).rglob(".locks/*"))
    with store.FileLock(path):
        assert made(cache)


@pytest.mark.parametrize("what", ["folder", "link", "file of a dead process", "nothing"])
def test_lock_files_of_every_kind(tmp_path: Path, what: str) -> None:
    cache = DiskCache("section", tmp_path)
    made(cache, OTHER)
    (path,) = list(place_of(tmp_path).rglob(".locks/*"))
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(precious)
    elif what != "nothing":
        path.write_text("12345")
    assert made(cache)
    assert precious.read_text() == "precious"


def test_root_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_CACHE_DIR", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    DiskCache("section").put(KEY, {"x": b""})
    assert cache_root().is_dir()
    reset()
    assert not cache_root().exists()
    DiskCache("section").put(KEY, {"x": b""})
    (cache_root() / "mine").write_text("not the cache's")
    reset()
    assert [path.name for path in cache_root().iterdir()] == ["mine"]
    monkeypatch.delenv("INDUCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "inductor"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "inductor"
    assert not any(str(cache_root()).startswith(shared) for shared in ("/tmp/inductor", "/var/tmp/inductor"))


def test_the_bound_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in (("7", 7 << 20), ("a lot", 4096 << 20), ("", 4096 << 20)):
        monkeypatch.setenv("INDUCTOR_CACHE_MB", given)
        assert place.default_bound() == expected


def _make(root: str, made: str) -> None:
    cache = DiskCache("section", root)
    with cache.lock(KEY):
        if cache.get(KEY) is None:
            time.sleep(0.2)
            cache.put(KEY, {"x": b"."})
            with open(made, "a") as file:
                file.write("made\n")


def test_two_processes_make_an_entry_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")  # a fresh interpreter would spend seconds importing torch
    made = tmp_path / "made"
    processes = [context.Process(target=_make, args=(str(tmp_path / "cache"), str(made))) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert made.read_text() == "made\n"


def _make_often(root: Path, at: int) -> None:
    """Without the lock, so that all repair at the same time."""
    cache = DiskCache("section", root)
    for round in range(30):
        entry = cache.get(KEY) or cache.put(KEY, FILES)
        assert entry.files == FILES
        target = entry.path("b.bin")
        try:
            if (round + at) % 3 == 0:
                os.truncate(target, at)
            elif (round + at) % 3 == 1:
                shutil.rmtree(entry.folder, ignore_errors=True)
        except FileNotFoundError:
            pass  # another one was quicker


def test_many_processes_damage_and_repair(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_make_often, args=(tmp_path, at)) for at in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    made(DiskCache("section", tmp_path))
    assert DiskCache("section", tmp_path).get(KEY) is not None


# ---- Damage


@pytest.mark.parametrize("name", ["a.txt", "b.bin", store.MANIFEST])
@pytest.mark.parametrize("damage", faults.FILE)
def test_damaged_files(tmp_path: Path, name: str, damage: str) -> None:
    cache = DiskCache("section", tmp_path)
    cache.put(OTHER, FILES)
    faults.FILE[damage](cache.put(KEY, FILES).path(name))
    assert made(cache)
    assert not made(cache) and not made(cache, OTHER)


@pytest.mark.parametrize("depth", range(4), ids=["entry", "bucket", "section", "all"])
@pytest.mark.parametrize("damage", faults.FOLDER)
@pytest.mark.parametrize("noticed", ["by the same process", "by the next"])
def test_damaged_folders(
    tmp_path: Path, depth: int, damage: str, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache("section", tmp_path)
    folder = cache.put(KEY, FILES).folder
    faults.FOLDER[damage]((folder, *folder.parents)[depth])
    if noticed == "by the next":
        monkeypatch.setattr(place, "_places", {})
        cache = DiskCache("section", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(cache)
    assert not made(cache)
    entry = cache.get(KEY)
    assert entry is not None and entry.folder == folder
    assert all(not path.is_symlink() and path.stat().st_mode & 0o022 == 0 for path in (folder, *folder.parents[:3]))


def test_an_entry_in_anothers_place(tmp_path: Path) -> None:
    cache = DiskCache("section", tmp_path)
    other = cache.put(OTHER, {name: content[::-1] for name, content in FILES.items()})
    folder = cache.put(KEY, FILES).folder
    shutil.rmtree(folder)
    shutil.copytree(other.folder, folder)
    assert made(cache) and not made(cache)
    (folder / store.MANIFEST).write_bytes((other.folder / store.MANIFEST).read_bytes())
    assert made(cache) and not made(cache)
    (folder / "a.txt").write_bytes(other.files["a.txt"])
    assert made(cache) and not made(cache)


@pytest.mark.parametrize(
    "change",
    [
        {"format": place.FORMAT - 1},
        {"format": place.FORMAT + 1},
        {"files": {}, "format": None},
        {"files": [1, 2]},
        {"files": {"../../escape": [0, ""]}},
        {"files": {"a.txt": 3}},
    ],
)
def test_manifests_of_other_versions(tmp_path: Path, change) -> None:
    cache = DiskCache("section", tmp_path)
    path = cache.put(KEY, FILES).path(store.MANIFEST)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert made(cache) and not made(cache)
    path.write_text("[]")
    assert made(cache) and not made(cache)


# ---- Places that can't be trusted, or written


def test_parents_that_others_may_write(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    root = shared / "mine"
    root.mkdir(parents=True)
    place.require_trusted(root)
    shared.chmod(0o777)
    with pytest.raises(place.Untrusted, match="other users may write in"):
        place.require_trusted(root)
    shared.chmod(0o1777)  # as /tmp: what is mine stays mine
    place.require_trusted(root)
    root.chmod(0o1777)
    with pytest.raises(place.Untrusted, match="other users may write in"):
        place.require_trusted(root)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_parents_of_others(tmp_path: Path) -> None:
    root = tmp_path / "theirs" / "mine"
    root.mkdir(parents=True)
    os.chown(root.parent, faults.NOBODY, -1)
    with pytest.raises(place.Untrusted, match="belongs to another user"):
        place.require_trusted(root)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_who_acts_as_another_user_has_that_ones_cache() -> None:
    root = Path(tempfile.mkdtemp())  # pytest's own folder lets nobody else pass
    try:
        os.chown(root, faults.NOBODY, -1)
        os.seteuid(faults.NOBODY)
        cache = DiskCache("section", root)
        cache.put(KEY, FILES)
        assert cache.get(KEY) is not None and root in cache.put(KEY, FILES).folder.parents
    finally:
        os.seteuid(0)
        shutil.rmtree(root)


def test_what_lies_in_a_shared_folder_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A perfect entry, but anybody could have made it. One warning, and a private folder that goes with the process."""
    root = tmp_path / "shared"
    planted = DiskCache("section", root).put(KEY, FILES)
    root.chmod(0o777)
    monkeypatch.setattr(place, "_places", {})
    with pytest.warns(RuntimeWarning, match=r"other users may write in .*shared") as seen:
        cache = DiskCache("section", root)
        assert made(cache) and not made(cache) and made(DiskCache("another", root))
    assert len(seen) == 1
    entry = cache.get(KEY)
    assert entry is not None and root not in entry.folder.parents
    assert entry.folder.parents[2].stat().st_mode & 0o777 == 0o700
    place._remove_temporary()
    assert not entry.folder.exists() and planted.folder.exists()


def test_a_link_to_a_shared_folder(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    with pytest.warns(RuntimeWarning, match="other users may write"):
        made(DiskCache("section", tmp_path / "link"))


def test_a_private_group_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(place, "_is_own_group", lambda number: True)
    place.require_trusted(tmp_path)
    monkeypatch.setattr(place, "_is_own_group", lambda number: False)
    with pytest.raises(place.Untrusted):
        place.require_trusted(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_disks_that_take_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cache = DiskCache("section", tmp_path)
    made(cache, OTHER)
    write = store._write

    def full(folder: Path, files) -> None:
        if tmp_path in folder.parents:
            raise OSError(code, os.strerror(code))
        write(folder, files)

    monkeypatch.setattr(store, "_write", full)
    with pytest.warns(RuntimeWarning, match=os.strerror(code)) as seen:
        assert made(cache) and not made(cache)
        assert made(cache, "cd" * 32)
        assert not made(cache, OTHER), "what could be written before is still good"
    assert len(seen) == 1
    assert not list(place_of(tmp_path).rglob(".new-*"))


def test_nowhere_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, files) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(store, "_write", full)
    cache = DiskCache("section", tmp_path)
    with pytest.warns(RuntimeWarning), pytest.raises(OSError, match="full"):
        cache.put(KEY, FILES)


def test_roots_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for root in (tmp_path / "file" / "cache", tmp_path / "file", tmp_path / "loop", Path("/proc/none/cache")):
        place._warned = False
        with pytest.warns(RuntimeWarning, match="INDUCTOR_CACHE_DIR may name another one"):
            made(DiskCache("section", root))


def test_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.warns(RuntimeWarning, match="no home"):
        made(DiskCache("section"))


def test_a_warning_made_an_error_is_no_error_of_the_users(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(DiskCache("section", tmp_path))
    assert "other users may write" in caplog.text


def test_a_cache_taken_away_comes_back(tmp_path: Path) -> None:
    cache = DiskCache("section", tmp_path / "cache")
    made(cache)
    shutil.rmtree(tmp_path / "cache")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(cache) and not made(cache)


def test_a_fork_while_another_thread_holds_the_locks(tmp_path: Path) -> None:
    cache = DiskCache("section", tmp_path)
    made(cache)
    with place._places_lock, cache._place._lock:  # as that thread would
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            cache._place.recheck()
            os._exit(0 if not made(DiskCache("section", tmp_path)) and not made(cache) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_leaves_the_temporary_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache = DiskCache("section", tmp_path)
    with pytest.warns(RuntimeWarning):
        made(cache)
    child = os.fork()
    if child == 0:
        place._remove_temporary()
        os._exit(0 if not made(cache) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not made(cache)


# ---- Folders for a while


def test_scratch_folders_of_the_dead_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the living stay, however old, and so does what is no such folder."""
    monkeypatch.setattr(scratch, "_looked_through", set())
    child = os.fork()
    if child == 0:
        for _ in range(2):
            (scratch.claimed_folder(str(tmp_path))[0] / "kernels.cpp").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    dead = set(tmp_path.iterdir())
    assert len(dead) == 2
    (tmp_path / "inductor-file").write_text("")
    (tmp_path / "another").mkdir()
    (tmp_path / "inductor-link").symlink_to(tmp_path / "another")
    with scratch.scratch_folder(str(tmp_path)) as living:
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        young = tmp_path / "inductor-young"
        young.mkdir()
        scratch._looked_through.clear()
        with scratch.scratch_folder(str(tmp_path)) as mine:
            left = {living, mine, young, tmp_path / "inductor-file", tmp_path / "inductor-link", tmp_path / "another"}
            assert set(tmp_path.iterdir()) == left
    assert not living.exists() and not mine.exists()


def test_the_temporary_cache_of_the_living_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = place.private_folder()
    os.utime(folder, (0, 0))
    monkeypatch.setattr(scratch, "_looked_through", set())
    with scratch.scratch_folder():
        assert folder.is_dir()
