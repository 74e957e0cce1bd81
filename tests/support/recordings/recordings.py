"""Recordings of hand-made observations, whole and damaged, and lakes that know them."""

import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from ktui.cluster.observation import Observation, Reading
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import Manifest, SegmentRead
from ktui.recording.reading import (
    BadLine,
    Damage,
    GoodLine,
    PlayedItem,
    PlayedPoll,
    Session,
    find_sessions,
    play_session,
    read_lines,
)
from ktui.recording.recorder import Recorder
from ktui.recording.segments import PollLine, to_ms, to_s
from ktui.simulated.clock import VirtualClock
from support.pipeline.lake_rows import looks, record
from support.simulated.observations import START, T0, T1, a_move, an_observation

K = TypeVar("K")


class Recording:
    """A recorder, its clock, and the observations it was shown."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.clock = VirtualClock(START)
        self.recorder = Recorder(folder, self.clock, **{"program": "ktui of a test", **options})
        self.shown: list[Observation] = []

    def looks(self, count: int, every_s: float = 1.0, **more: Any) -> None:
        """Show the recorder `count` observations, `every_s` seconds apart."""
        for _ in range(count):
            seen = copying(self.clock.monotonic(), **more)
            self.shown.append(seen)
            self.recorder.poll(seen)
            self.clock.pass_time(every_s)

    def die(self) -> None:
        """Abandon the session, as if the recorder's process died."""
        if self.recorder._session is not None:
            self.recorder._session.abandon()


def copying(at_s: float, **more: Any) -> Observation:
    """Return an observation of two moving partitions; the data copied differs each second."""
    done = round(at_s * 1_000)
    return an_observation(
        [a_move(T0), a_move(T1)],
        at_s,
        ends={(tp, broker): 10_000_000 + done * broker for tp in (T0, T1) for broker in (1, 4)},
        **more,
    )


def the_session(path: Path) -> Session:
    """Return the only session in a folder."""
    (session,) = find_sessions(path)
    return session


def happenings(path: Path) -> list[PlayedItem]:
    """Return all items of the only session in a folder."""
    return list(play_session(the_session(path)))


def seen_in(path: Path) -> list[Observation]:
    """Return the observations of the only session in a folder; no line may be damaged."""
    happened = happenings(path)
    assert [each for each in happened if isinstance(each, Damage)] == []
    return [each.observation for each in happened if isinstance(each, PlayedPoll)]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def good(content: bytes | Path) -> list[GoodLine]:
    return [each for each in read_lines(content) if isinstance(each, GoodLine)]


def bad(content: bytes | Path) -> list[BadLine]:
    return [each for each in read_lines(content) if isinstance(each, BadLine)]


def look_lines(content: bytes | Path) -> Iterator[PollLine]:
    return (each.line for each in good(content) if isinstance(each.line, PollLine))


def to_the_millisecond(seen: Observation) -> Observation:
    """Return an observation as a recording keeps it."""

    def rounded(readings: Mapping[K, Reading]) -> dict[K, Reading]:
        return {key: Reading(r.value, to_s(to_ms(r.at_s))) for key, r in readings.items()}

    return msgspec.structs.replace(
        seen,
        ends=rounded(seen.ends),
        starts=rounded(seen.starts),
        sizes=rounded(seen.sizes),
        monotonic_s=to_s(to_ms(seen.monotonic_s)),
        took_s=to_s(to_ms(seen.took_s)),
        at=seen.at.replace(microsecond=round(seen.at.microsecond / 1000) % 1000 * 1000),
    )


def all_to_the_millisecond(seen: Iterable[Observation]) -> list[Observation]:
    return [to_the_millisecond(each) for each in seen]


class _Shifted(VirtualClock):
    """A clock whose monotonic time starts at another second."""

    def __init__(self, from_s: float) -> None:
        super().__init__(START)
        self._from_s = from_s

    def monotonic(self) -> float:
        return super().monotonic() + self._from_s


def a_recording(
    folder: Path, history: Iterable[Observation], *, monotonic_from_s: float = 0.0, **how: Any
) -> Path:
    """Record observations at their own seconds, and return the folder.

    Args:
        folder: the folder to record into.
        history: observations as `an_observation` makes them, of START and later.
        monotonic_from_s: the second that the machine's monotonic clock showed at START.
        how: further arguments of the recorder.
    """
    clock = _Shifted(monotonic_from_s)
    recorder = Recorder(folder, clock, **{"program": "a test", **how})
    for seen in history:
        clock.pass_time(max(0.0, seen.monotonic_s - clock.monotonic()))
        recorder.poll(seen)
    recorder.close()
    assert recorder.problem is None
    return folder


def files_of(folder: Path) -> list[Path]:
    """Return the files of the recordings under a folder."""
    return sorted(folder.rglob("*.jsonl.gz"))


def damaged(file: Path, *, line: int) -> None:
    """Change a letter of a line, numbered from 1."""
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    text = lines[line - 1]
    lines[line - 1] = text[:20] + (b"x" if text[20:21] != b"x" else b"y") + text[21:]
    file.write_bytes(gzip.compress(b"".join(lines)))


def read_into_lake(files: Iterable[Path], lake: Path) -> Path:
    """Let a lake know files, as the pipeline does."""
    read = tuple(
        SegmentRead(
            str(file),
            file.stat().st_size,
            file.stat().st_mtime_ns // 1_000_000,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files
    )
    lake.mkdir(parents=True, exist_ok=True)
    (lake / manifests.NAME).write_bytes(manifests.encode(Manifest(version=1, segments=read)))
    return lake


def summed(text: bytes) -> bytes:
    """Return a line as another program may write it, with its checksum and its newline."""
    text = text.rstrip().removesuffix(b"}")
    return text + b',"crc":"%08x"}\n' % crc32(text)


def unsummed(line: bytes) -> bytes:
    """Return a line of a recording without its checksum, so that it can be changed."""
    return line[: line.rindex(b',"crc"')] + b"}"


def put_faulty(folder: Path, scratch: Path) -> dict[str, str]:
    """Write files with one fault each into a folder; return the message expected for each name."""
    folder.mkdir(parents=True, exist_ok=True)
    (segment,) = record(scratch / "whole", looks(5)).iterdir()
    content = segment.read_bytes()
    head, *rest = gzip.decompress(content).splitlines(keepends=True)

    def put(name: str, *texts: bytes) -> None:
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b"".join(texts), 9))

    def with_head(name: str, what: bytes, other: bytes) -> None:
        assert what in head
        put(name, summed(unsummed(head.replace(what, other))), *rest)

    (folder / "empty.jsonl.gz").touch()
    (folder / "a:b.jsonl.gz").write_bytes(content)
    (folder / "cut.jsonl.gz").write_bytes(content[: len(content) // 2])
    (folder / "garbage.jsonl.gz").write_bytes(os.urandom(8).join([b"garbage"] * 100))
    os.mkfifo(folder / "fifo.jsonl.gz")
    os.mkfifo(folder / "left.jsonl.gz.tmp")
    (folder / "folder.jsonl.gz").mkdir()
    (folder / "gone.jsonl.gz").symlink_to("nowhere")
    Path(os.fsdecode(bytes(folder / "name") + b"\xff.jsonl.gz")).write_bytes(content)
    with_head("newer", b'"schema_version":1', b'"schema_version":7')
    with_head("headless", b'"kind":"head"', b'"kind":"lost","reason":""')
    with_head("nowhere", b'"cluster_id":"a-cluster"', b'"cluster_id":""')
    with_head("long-id", b'"cluster_id":"a-cluster"', b'"cluster_id":"' + b"%" * 100 + b'"')
    with_head("old-time", b'"ms":0', b'"ms":-9000000000000')
    put("bomb", head, b"\n" * 20_000_000)
    figure = b'{"kind":"look","seq":1,"at":1767268800000,"ms":0,"took_ms":1,"whole":true,'
    figure += b'"controller":1,"names":[[0,"huge",0,null]],'
    figure += b'"states":[[0,[1],[1],1,1,[],[],[],null,true]],"brokers":{"1":{"id":1}},'
    figure += b'"broker_configs":{"1":{"follower_throttle_rate":1' + b"0" * 30 + b"}}}"
    put("figure", head.replace(head, summed(unsummed(head))), summed(figure))
    return {
        "empty.jsonl.gz": "there is nothing in it",
        "cut.jsonl.gz": "it is cut off",
        "garbage.jsonl.gz": "it cannot be unzipped from here on",
        "fifo.jsonl.gz": "a FIFO, not a file",
        "left.jsonl.gz.tmp": "a FIFO, not a file",
        "folder.jsonl.gz": "cannot be read: Is a directory",
        "gone.jsonl.gz": "cannot be read: No such file or directory",
        "name\N{REPLACEMENT CHARACTER}.jsonl.gz": "its name is not UTF-8; rename it",
        "newer.jsonl.gz": "written by a newer ktui, as version 7",
        "headless.jsonl.gz": "there is no head before it",
        "nowhere.jsonl.gz": "its cluster's id can be no folder's name",
        "long-id.jsonl.gz": "its cluster's id can be no folder's name",
        "old-time.jsonl.gz": "not a line that this ktui knows",
        "bomb.jsonl.gz": "its checksum is missing or wrong",
        "a:b.jsonl.gz": "its name has a colon, which Spark cannot read",
        "figure.jsonl.gz": "a figure in it is larger than a table holds",
    }
