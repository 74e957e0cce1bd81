"""A redacted recording hides every name and keeps everything else."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import AnyRunEvent, decode, encode
from ktui.recording import segments
from ktui.recording.codec import Decoder, Encoder
from ktui.recording.redact import Redaction
from ktui.recording.segments import AnyLine, Head, LostPollLine, PollLine, RunLine
from support.recordings.named_events import (
    MARK,
    NAMES,
    TOPICS,
    events,
    named_observations,
    names,
    texts,
    topics,
)

KEY = b"a key of somebody's own"


def head(cluster: str) -> Head:
    return Head(
        seq=0, at=0, ms=0, schema_version=1, session=f"{MARK}0123456789", segment=0,
        cluster_id=f"cluster {MARK}", cluster=cluster, program="ktui 0.1.0 record",
    )  # fmt: skip


def run_line(run: str, event: AnyRunEvent) -> RunLine:
    return RunLine(
        seq=1, at=0, ms=0, run=run, run_id=f"{run}@2026-01-01T12:00:00Z", entry=1,
        event=msgspec.Raw(encode(event)),
    )  # fmt: skip


@st.composite
def recordings(draw: st.DrawFn) -> list[AnyLine]:
    encoder, made = Encoder(), list[AnyLine]([head(draw(names))])
    for seq in range(1, draw(st.integers(1, 3))):
        look = encoder.poll(draw(named_observations(float(seq))), seq=seq)
        made += draw(
            st.sampled_from(
                [
                    [look],
                    [look, LostPollLine(seq=seq, at=0, ms=seq, reason=draw(texts))],
                    [run_line(draw(names), draw(events())), look],
                ]
            )
        )
    return made


@given(recordings())
def test_no_name_is_left_in_any_line_or_error_text(recording: list[AnyLine]) -> None:
    hide = Redaction(KEY)

    for line in recording:
        assert MARK not in segments.encode(hide(line)).decode().lower()


@given(events(), st.sampled_from(NAMES))
def test_an_event_keeps_its_type_and_shape_except_for_names(event: AnyRunEvent, run: str) -> None:
    hidden = Redaction(KEY)(run_line(run, event))

    assert isinstance(hidden, RunLine)
    read = decode(bytes(hidden.event))
    assert type(read) is type(event)
    assert shape(msgspec.to_builtins(read)) == shape(msgspec.to_builtins(event))


def shape(value: object) -> object:
    """Return a JSON value with its texts replaced, except for ktui's own words."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case list() | tuple():
            return [shape(item) for item in value]
        case str() if MARK in value.lower() or "-" in value:
            return "a name"
    return value


@given(st.lists(named_observations(1.0), min_size=1, max_size=4))
def test_playback_equals_the_observations_except_for_names(history: list[Observation]) -> None:
    hide, encoder = Redaction(KEY), Encoder()
    decoder = Decoder(hide.hide("cluster", history[0].cluster_id))
    for seq, seen in enumerate(history):  # it has to learn the kind of each name in a text
        hide(Encoder().poll(seen, seq=seq))

    for seq, seen in enumerate(history):
        line = hide(encoder.poll(seen, seq=seq))
        assert isinstance(line, PollLine)
        assert decoder.observation(line) == hidden(seen, hide)


def hidden(seen: Observation, hide: Redaction) -> Observation:
    """Return an observation with each name replaced."""

    def of(tp: TopicPartition) -> TopicPartition:
        return TopicPartition(hide.hide("topic", tp.topic), tp.partition)

    def broker(known: Broker) -> Broker:
        return Broker(
            known.id, hide.hide("host", known.host), known.port, hide.hide("rack", known.rack or "")
        )

    def log_dir(known: LogDir) -> LogDir:
        error = None if known.error is None else hide.text(known.error)
        return LogDir(known.broker, hide.hide("path", known.path), error)

    def config(known: TopicConfig) -> TopicConfig:
        listed = hide.text(known.follower_throttled_replicas)
        return TopicConfig(follower_throttled_replicas=listed)

    assert seen.census is not None
    return msgspec.structs.replace(
        seen,
        cluster_id=hide.hide("cluster", seen.cluster_id),
        brokers={n: broker(known) for n, known in seen.brokers.items()},
        partitions={
            of(tp): msgspec.structs.replace(
                state, tp=of(tp), topic_id=hide.hide("id", state.topic_id or "")
            )
            for tp, state in seen.partitions.items()
        },
        absent=frozenset(map(of, seen.absent)),
        log_dirs={n: tuple(map(log_dir, dirs)) for n, dirs in seen.log_dirs.items()},
        topic_configs={
            hide.hide("topic", topic): config(known) for topic, known in seen.topic_configs.items()
        },
        census=msgspec.structs.replace(
            seen.census, unhealthy=tuple(map(of, seen.census.unhealthy))
        ),
        failures=tuple(
            msgspec.structs.replace(
                failure,
                topic=None if failure.topic is None else hide.hide("topic", failure.topic),
                answer=hide.text(failure.answer),
            )
            for failure in seen.failures
        ),
    )


@given(names, topics)
def test_a_name_is_hidden_alike_with_one_key_and_differently_with_another(
    earlier: str, topic: str
) -> None:
    one, other, of_another = Redaction(KEY), Redaction(KEY), Redaction(b"another key")
    other.hide("host", earlier)

    assert one.hide("topic", topic) == other.hide("topic", topic)
    assert one.hide("topic", topic) != of_another.hide("topic", topic)
    assert len({one.hide("topic", each) for each in TOPICS}) == len(TOPICS)
