"""The durable store: commits, crashes in between, a full disk (cases 25, 26 and the disk drill)."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from regionfed.bridge.contents import decode, encode
from regionfed.bridge.store import JobStore, StoredResult
from regionfed.errors import StateError, TransportError, UpdateError


def finish(store: JobStore, job_id: str, result: bytes, state: bytes | None) -> bool:
    return store.finish(
        StoredResult(job_id, "result", "", store.spool.write([result])),
        state_file=None if state is None else store.spool.write([state]),
    )


def region_state(store: JobStore) -> bytes | None:
    pieces = store.region_state()
    return None if pieces is None else b"".join(pieces)


def test_what_was_committed_is_there_in_the_next_process(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add("1:1:train", "train", [b"order"])
    finish(store, "1:1:train", b"result", b"state")
    store.add("1:2:train", "train", [b"next"])
    # No close: as after kill -9.
    again = JobStore(tmp_path)
    assert again.states() == {"1:1:train": "done", "1:2:train": "queued"}
    result = again.result("1:1:train")
    assert result is not None
    assert b"".join(again.spool.read(result.result_file)) == b"result"
    assert region_state(again) == b"state"
    job = again.oldest_unfinished()
    assert job is not None
    assert b"".join(again.spool.read(job.order_file)) == b"next"


def test_a_crash_between_files_and_commit_leaves_the_old_state(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    for number, state in ((1, b"old"), (2, b"never")):
        store.add(f"1:{number}:train", "train", [b"order"])
        if number == 1:
            finish(store, "1:1:train", b"result", state)
    store.spool.write([b"result 2"])
    store.spool.write([b"never"])
    (store.spool.folder / "half.rec.tmp").write_bytes(b"half")

    again = JobStore(tmp_path)

    assert region_state(again) == b"old"
    assert again.state("1:2:train") == "queued"
    # The result and state of job 1 and the order of job 2.
    assert len(list(again.spool.folder.iterdir())) == 3


def test_files_that_are_let_go_are_removed(tmp_path: Path) -> None:
    store = JobStore(tmp_path, keep=1)
    for number in range(4):
        store.add(f"1:{number}:train", "train", [b"order"])
        finish(store, f"1:{number}:train", b"result", b"state")
    assert len(list(store.spool.folder.iterdir())) == 2
    # A second answer brings files that nobody wants.
    assert finish(store, "1:3:train", b"second", b"second") is False
    assert len(list(store.spool.folder.iterdir())) == 2
    assert region_state(store) == b"state"


def test_a_full_disk_is_named_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path)
    store.add("1:1:train", "train", [b"order"])
    finish(store, "1:1:train", b"result", b"state")
    before = sorted(path.name for path in store.spool.folder.iterdir())

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StateError, match=rf"{tmp_path}.*No space left.*nothing was changed"):
            store.add("1:2:train", "train", [b"order"])
        with pytest.raises(StateError, match="No space left"):
            finish(store, "1:1:train", b"x", b"y")
    assert sorted(path.name for path in store.spool.folder.iterdir()) == before
    assert store.states() == {"1:1:train": "done"}
    assert store.add("1:2:train", "train", [b"order"])


def test_an_index_that_cannot_be_written_loses_no_state(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.add("1:1:train", "train", [b"order"])
    # SQLite refuses to grow beyond this, as it does when the disk is full.
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages}")
    long_error = "x" * 100_000
    with pytest.raises(StateError, match=r"bridge\.db: database or disk is full"):
        store.finish(
            StoredResult("1:1:train", "error", long_error, store.spool.write([b"r"])),
            state_file=store.spool.write([b"new"]),
        )
    store._db.execute("PRAGMA max_page_count=100000")
    assert store.state("1:1:train") == "queued"
    assert region_state(store) is None
    assert len(list(store.spool.folder.iterdir())) == 1
    assert finish(store, "1:1:train", b"result", b"state")


def test_an_order_that_breaks_off_is_not_a_job(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise TransportError("cut")

    store = JobStore(tmp_path)
    with pytest.raises(TransportError, match="cut"):
        store.add("1:1:train", "train", broken())
    assert store.states() == {}
    assert list(store.spool.folder.iterdir()) == []


@pytest.mark.parametrize("harm", ["shorten", "flip", "remove"])
def test_a_damaged_file_is_named(tmp_path: Path, harm: str) -> None:
    store = JobStore(tmp_path)
    store.add("1:1:train", "train", [b"order" * 100])
    job = store.oldest_unfinished()
    assert job is not None
    path = store.spool.folder / job.order_file
    data = path.read_bytes()
    match harm:
        case "shorten":
            path.write_bytes(data[:-20])
        case "flip":
            path.write_bytes(b"X" + data[1:])
        case "remove":
            path.unlink()
    with pytest.raises(StateError, match=job.order_file):
        b"".join(store.spool.read(job.order_file))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    JobStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "bridge.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StateError, match=r"format 99.*reads 1"):
        JobStore(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file"):
        JobStore(tmp_path / "file" / "desk")


_scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)


@settings(max_examples=60, deadline=None)
@given(
    values=st.dictionaries(st.text(), _scalars),
    shape=st.lists(st.integers(0, 5), max_size=3),
    cut=st.integers(1, 50),
)
def test_any_record_returns_however_it_is_cut(
    values: dict[str, bool | int | float | str | bytes], shape: list[int], cut: int
) -> None:
    record = RecordDict(
        {
            "config": ConfigRecord(dict(values)),
            "arrays": ArrayRecord({"a": Array(np.ones(shape, np.float32))}),
        }
    )
    raw = b"".join(encode(record))
    pieces = [raw[i : i + cut] for i in range(0, len(raw), cut)]
    back = decode(pieces)
    assert back == record
    assert {k: type(v) for k, v in back["config"].items()} == {
        k: type(v) for k, v in record["config"].items()
    }
    with pytest.raises(TransportError):
        decode([raw[:-1]])
    with pytest.raises(TransportError, match="1 bytes after the end"):
        decode([raw, b"x"])


def test_a_number_beyond_64_bits_is_named() -> None:
    with pytest.raises(UpdateError, match=r"order\.round"):
        list(encode(RecordDict({"order": ConfigRecord({"round": 2**64})})))
