"""What a redacted recording keeps of free texts, so that it stays useful."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import kafka.errors
import msgspec
import pytest
from msgspec import inspect

from ktui.cluster.ports import Verdict
from ktui.cluster.text import is_simulated
from ktui.execution.run.events import Answered, AnyRunEvent, Exported, Request, encode
from ktui.recording.lines import AnyLine, Head, LostPollLine, RunLine
from ktui.recording.redact import Redaction, is_plain

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
