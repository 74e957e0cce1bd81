"""Recordings as they are stored, and redacted."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import kafka.errors
import msgspec
import pytest
from msgspec import inspect

from ktui.cluster.ports import Verdict
from ktui.cluster.text import is_simulated
from ktui.durable import make_folder
from ktui.execution.run.events import Answered, AnyRunEvent, Exported, Request, encode
from ktui.recording.reading import Damage, PlayedPoll
from ktui.recording.redact import Redaction, is_plain
from ktui.recording.segments import AnyLine, Head, LostPollLine, RunLine
from ktui.recording.stored import StoredSegment, is_live, remove_segments, stored_sessions, tidy
from support.recordings.recordings import Recording, files_in, happenings


def recorded(folder: Path, *, segments: int = 3, close: bool = True) -> Recording:
    """Return a recording of some segments, in one session."""
    recording = Recording(folder, longest_s=2.0)
    recording.looks(2 * segments)
    if close:
        recording.recorder.close()
    return recording


def stored(folder: Path) -> list[StoredSegment]:
    return [segment for _, segments in stored_sessions(folder) for segment in segments]


def test_every_segment_of_a_recorder_is_found_with_its_size(tmp_path: Path) -> None:
    recorded(tmp_path)
    recorded(tmp_path / "deeper" / "still", close=False)

    found = stored(tmp_path)

    assert sorted(each.path for each in found) == files_in(tmp_path)
    assert all(each.size == each.path.stat().st_size for each in found)


def test_links_and_other_peoples_files_are_neither_found_nor_removed(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "real")
    (folder,) = {file.parent for file in files_in(recording.folder)}
    others = tmp_path / "others" / folder.name
    others.mkdir(parents=True)
    (others / "notes.txt").write_text("mine")
    (others / "12.jsonl.gz").write_bytes(b"mine")
    (others / "000000.jsonl.gz").symlink_to(files_in(folder)[0])
    (others / "000001.jsonl.gz").mkdir()
    (tmp_path / "others" / "flat.jsonl.gz").write_bytes(b"mine")
    another = "1" if folder.name.endswith("0") else "0"
    (tmp_path / "others" / f"{folder.name[:-1]}{another}").symlink_to(folder)

    assert stored(tmp_path / "others") == []


def test_a_session_is_live_until_its_recorder_closes_it_or_dies(tmp_path: Path) -> None:
    closing, dying = recorded(tmp_path / "1", close=False), recorded(tmp_path / "2", close=False)
    folders = [recording.recorder.path for recording in (closing, dying)]
    assert all(folder is not None and is_live(folder) for folder in folders)

    closing.recorder.close()
    dying.die()

    assert not any(folder is not None and is_live(folder) for folder in folders)


def test_a_session_is_live_at_every_moment_while_its_recorder_goes_to_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorded(tmp_path, close=False)
    folder = recording.recorder.path
    assert folder is not None
    seen = []
    rename = Path.rename

    def renamed(path: Path, to: Path) -> Path:
        done = rename(path, to)
        seen.append(is_live(folder))
        return done

    monkeypatch.setattr(Path, "rename", renamed)
    recording.looks(5)

    assert len(seen) > 1
    assert all(seen)


def test_an_empty_segment_counts_as_just_begun_for_an_hour(tmp_path: Path) -> None:
    begun = tmp_path / "000000.jsonl.gz.tmp"
    begun.touch()
    assert is_live(tmp_path)

    os.utime(begun, (0, time.time() - 3_700))  # as a power cut may leave one

    assert not is_live(tmp_path)


def test_empty_folders_of_a_session_and_its_cluster_are_removed_and_no_others(
    tmp_path: Path,
) -> None:
    recorded(tmp_path)
    found = stored(tmp_path)
    session = found[0].session
    tidy(session, tmp_path)
    assert files_in(tmp_path) == [each.path for each in found]

    assert remove_segments(found).removed == tuple(found)
    tidy(session, session.parent)
    assert list(tmp_path.iterdir()) == [session.parent]
    session.mkdir()
    tidy(session, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_is_left_of_a_session_is_played(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    first, *_ = stored(tmp_path)

    remove_segments([first])

    missing, *played = happenings(recording.folder)
    assert isinstance(missing, Damage)
    assert sum(isinstance(each, PlayedPoll) for each in played) == 4


def test_a_segment_that_has_vanished_or_changed_meanwhile_is_no_problem(tmp_path: Path) -> None:
    recorded(tmp_path)
    gone, changed, other = stored(tmp_path)
    gone.path.unlink()
    changed.path.write_bytes(b"another")

    removal = remove_segments([gone, changed, other])

    assert removal.removed == (other,)
    assert removal.problems == ()
    assert files_in(tmp_path) == [changed.path]


def test_no_segment_of_a_live_session_is_removed(tmp_path: Path) -> None:
    recorded(tmp_path, close=False)
    before = files_in(tmp_path)

    assert remove_segments(stored(tmp_path)).removed == ()
    assert files_in(tmp_path) == before


def test_a_segment_of_a_dead_recorder_can_be_removed(tmp_path: Path) -> None:
    recorded(tmp_path, close=False).die()

    remove_segments(stored(tmp_path))

    assert files_in(tmp_path) == []


def test_a_segment_that_may_not_be_removed_is_named_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path)
    found = stored(tmp_path)
    unlink = Path.unlink

    def refused(path: Path) -> None:
        if path == found[0].path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refused)
    removal = remove_segments(found)

    assert [str(problem) for problem in removal.problems] == [
        f"{found[0].path}: cannot be removed: Permission denied"
    ]
    assert removal.removed == tuple(found[1:])


def test_a_recorder_that_begins_while_empty_folders_are_removed_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def made_and_tidied(folder: Path) -> None:
        make_folder(folder)
        tries.append(folder)
        if len(tries) == 1:
            folder.rmdir()
            folder.parent.rmdir()

    monkeypatch.setattr("ktui.recording.recorder.make_folder", made_and_tidied)
    recording = recorded(tmp_path)

    assert recording.recorder.problem is None
    assert len(tries) == 2
    assert len(stored(tmp_path)) == 3


LINE: dict[str, Any] = {"seq": 0, "at": 0, "ms": 0}
CODES = [name for name in vars(kafka.errors).values() if isinstance(name, type)]


def redaction() -> Redaction:
    hide = Redaction(b"a key")
    hide.hide("topic", "orders")
    hide.hide("host", "kafka-1.example")
    return hide


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("no answer for 2.1 s", "no answer for 2.1 s"),
        ("NOT_CONTROLLER: not the one", "NOT_CONTROLLER: not the one"),
        ("orders-3: has no leader", "{orders}-3: has no leader"),
        ("'orders' is gone, orders. too", "'{orders}' is gone, {orders}. too"),
        ("connecting (kafka-1.example:9092): refused", "connecting ({host}:9092): refused"),
        ("asked at 2026-01-01T12:00:00Z (4711)", "asked at 2026-01-01T12:00:00Z (4711)"),
        ("0:1,0:2,1:3", "0:1,0:2,1:3"),
        ("25% at 50 MB/s", "25% at 50 MB/s"),
    ],
)
def test_a_redacted_error_message_stays_readable(message: str, kept: str) -> None:
    hide = redaction()
    names = {"orders": hide.hide("topic", "orders"), "host": hide.hide("host", "kafka-1.example")}

    assert hide.text(message) == kept.format(**names)


def test_a_simulated_cluster_is_still_seen_to_be_one() -> None:
    rehearsal = redaction().head(
        Head(
            schema_version=1,
            session="a",
            segment=0,
            cluster_id="simulated-prod-id",
            cluster="prod.yaml (simulated)",
            **LINE,
        )
    )

    assert is_simulated(rehearsal.cluster_id)
    assert rehearsal.cluster.endswith(" (simulated)")
    assert "prod" not in f"{rehearsal.cluster_id} {rehearsal.cluster}"


@pytest.mark.parametrize(
    "message",
    [
        "10.0.0.7",
        "fe80::1ff:fe23",
        "payments",
        "/srv/kafka",
        "ada@ops1",
        "PAYMENTS_EU",
        "eu-west-1",
    ],
)
def test_an_unknown_word_is_hidden(message: str) -> None:
    assert message not in redaction().text(f"it says {message}: no")
    assert redaction().text(f"it says {message}: no").startswith("it says name-")


def test_a_topic_named_like_a_plain_word_is_hidden_in_a_partition_name() -> None:
    hide = redaction()
    hidden = hide.hide("topic", "leader")

    assert hide.text("leader-3 has no replica") == f"{hidden}-3 has no replica"


def test_a_throttled_replica_list_is_kept_despite_a_topic_named_like_a_number() -> None:
    hide = redaction()
    hide.hide("topic", "0")

    assert hide.text("0:1,0:2") == "0:1,0:2"
    assert hide.text("5000000") == "5000000"


def test_a_redacted_head_is_marked_and_has_another_session() -> None:
    head = Head(
        **LINE, schema_version=1, session="0" * 32, segment=2, cluster_id="lkc-7", cluster="prod",
        program="ktui 0.1.0 watch",
    )  # fmt: skip

    hidden = redaction().head(head)

    assert hidden.redacted
    assert hidden.session != head.session
    assert (hidden.segment, hidden.program) == (2, "ktui 0.1.0 watch")
    assert hidden.cluster_id.startswith("cluster-")


def test_a_lost_poll_before_the_first_one_names_no_host() -> None:
    hidden = Redaction(b"a key")(
        LostPollLine(**LINE, reason="connecting (kafka-1.example:9092): refused")
    )

    assert isinstance(hidden, LostPollLine)
    assert "example" not in hidden.reason
    assert hidden.reason.endswith(": refused")


def test_a_redacted_run_keeps_a_consistent_name_and_its_start_time() -> None:
    event = Answered(
        topic="orders", partition=0, request=Request.ALTER, verdict=Verdict.REFUSED,
        code="INVALID_REPLICA_ASSIGNMENT",
    )  # fmt: skip
    line = RunLine(
        **LINE, run="drain", run_id="drain@2026-01-01T12:00:00.000000Z", entry=7,
        event=msgspec.Raw(encode(event)),
    )  # fmt: skip
    hide = redaction()

    hidden = hide(line)

    assert isinstance(hidden, RunLine)
    assert hidden.run == hide.hide("run", "drain")
    assert hidden.run_id == f"{hidden.run}@2026-01-01T12:00:00.000000Z"
    decoded = msgspec.json.decode(hidden.event)
    assert decoded["topic"] == hide.hide("topic", "orders")
    assert (decoded["event"], decoded["code"]) == ("answered", "INVALID_REPLICA_ASSIGNMENT")


def test_the_file_and_the_name_of_an_exported_run_are_hidden_even_as_plain_words() -> None:
    event = Exported(run="drain", file="/run/data/plan.run", host="host", user="user")
    line = RunLine(**LINE, run="drain", run_id="drain", entry=7, event=msgspec.Raw(encode(event)))
    hide = redaction()

    hidden = hide(line)

    assert isinstance(hidden, RunLine)
    decoded = msgspec.json.decode(hidden.event)
    assert decoded.pop("event") == "exported"
    assert decoded == {
        "run": hide.hide("run", "drain"),
        "file": hide.hide("path", "/run/data/plan.run"),
        "host": hide.hide("host", "host"),
        "user": hide.hide("user", "user"),
    }


@pytest.mark.parametrize("event", get_args(AnyRunEvent), ids=lambda event: event.__name__)
def test_every_field_name_of_an_event_is_kept(event: type) -> None:
    for field in msgspec.structs.fields(event):
        assert all(map(is_plain, field.name.split("_"))), field.name


def test_every_error_name_of_kafka_is_kept() -> None:
    names = {str(getattr(error, "message", "")) for error in CODES}
    codes = sorted(name for name in names if name.isupper())

    assert len(codes) > 50
    assert [code for code in codes if not is_plain(code)] == []


HIDDEN = {
    "Broker.host", "Broker.rack", "CensusLine.unhealthy", "Failure.answer", "Failure.topic",
    "Head.cluster", "Head.cluster_id", "Head.session", "LogDir.error", "LogDir.path",
    "LostPollLine.reason",
    "PollLine.names", "PollLine.topic_configs", "RunLine.run", "RunLine.run_id",
    "TopicConfig.follower_throttled_replicas", "TopicConfig.leader_throttled_replicas",
}  # fmt: skip
SHOWN = {"Head.program"}


def test_every_text_of_a_line_is_hidden_except_the_program() -> None:
    assert set(texts_of(inspect.type_info(AnyLine), "")) == HIDDEN | SHOWN


def texts_of(kind: inspect.Type, name: str) -> Iterator[str]:
    """Yield the names of the fields, at any depth of a line, that hold a text."""
    match kind:
        case inspect.StrType():
            yield name
        case inspect.UnionType():
            for each in kind.types:
                yield from texts_of(each, name)
        case inspect.StructType():
            for field in kind.fields:
                yield from texts_of(field.type, f"{kind.cls.__name__}.{field.name}")
        case inspect.VarTupleType() | inspect.ListType():
            yield from texts_of(kind.item_type, name)
        case inspect.TupleType():
            for each in kind.item_types:
                yield from texts_of(each, name)
        case inspect.DictType():
            yield from texts_of(kind.key_type, name)
            yield from texts_of(kind.value_type, name)
