"""docs/recording.md describes the format as it is."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.recording.lines import CensusLine, End, Head, LostPollLine, PollLine, RunLine
from ktui.recording.reading import PlayedPoll
from support.recordings.recordings import happenings
from support.simulated.polled_cluster import ORDERS

PAGE = (Path(__file__).parents[3] / "docs" / "recording.md").read_text(encoding="utf-8")
KINDS = [Head, PollLine, LostPollLine, RunLine, End, CensusLine]
WITHIN = [Broker, BrokerConfig, LogDir, TopicConfig, Failure]


@pytest.mark.parametrize("kind", [*KINDS, *WITHIN], ids=lambda kind: kind.__name__)
def test_every_field_of_the_format_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}

    assert fields <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_example_on_the_page_is_a_recording(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "000000.jsonl.gz"
    file.write_bytes(gzip.compress(example.encode()))

    played = happenings(file)

    assert [type(each) for each in played] == [PlayedPoll, RunLine, PlayedPoll, LostPollLine, End]
    first, _, second, *_ = played
    assert isinstance(first, PlayedPoll)
    assert isinstance(second, PlayedPoll)
    ends = {replica.broker: reading.value for replica, reading in second.observation.ends.items()}
    assert second.line.ms - first.line.ms == 1_004
    assert ends == {1: 1_000_120, 4: 252_100}
    assert second.observation.partitions[ORDERS].target == (4, 2, 3)
    assert second.observation.partitions[ORDERS].original == (2, 3, 1)
