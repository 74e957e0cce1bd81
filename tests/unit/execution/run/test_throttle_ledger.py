"""The throttle settings that are a run's, by its journal: never fewer than may be there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigSource, Setting, Verdict
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, SettingKey, parse_throttled_list
from ktui.execution.run.events import (
    Configure,
    Configured,
    FoundSetting,
    SettingsFound,
    SettingsGivenUp,
    ThrottleChanged,
    ThrottleEvent,
    decode,
    encode,
)
from ktui.execution.run.throttle_ledger import SetByRun, ThrottleLedger
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.runs.throttled import broker, change_list, set_rate, topic

UNSET = Setting("", ConfigSource.DEFAULT)
LIST, RATE = (topic("orders"), FOLLOWER_REPLICAS), (broker(4), FOLLOWER_RATE)
FOUND = SettingsFound(found=(FoundSetting(*LIST, UNSET), FoundSetting(*RATE, None)))
APPEND, SUBTRACT = ConfigOp.APPEND, ConfigOp.SUBTRACT


def put_in(value: str) -> Configure:
    return Configure(changes=(change_list(APPEND, value),))


def take_off(value: str) -> Configure:
    return Configure(changes=(change_list(SUBTRACT, value),))


def rate(bytes_s: int) -> Configure:
    return Configure(changes=(set_rate(4, bytes_s),))


PUT_BACK = Configure(
    changes=(change_list(ConfigOp.DELETE, None), set_rate(4, None)), puts_back=True
)


def answer(verdict: Verdict, message: str = "", who: object = LIST[0]) -> Configured:
    assert who in (LIST[0], RATE[0])
    resource = LIST[0] if who == LIST[0] else RATE[0]
    return Configured(resource=resource, verdict=verdict, code="ANY", message=message)


YES, NO, LOST = (answer(verdict) for verdict in Verdict)
RATE_YES, RATE_NO, RATE_LOST = (answer(verdict, who=RATE[0]) for verdict in Verdict)


def fold(*events: ThrottleEvent) -> ThrottleLedger:
    throttled = ThrottleLedger()
    for event in (FOUND, *events):
        throttled.apply(event)
    return throttled


@pytest.mark.parametrize(
    ("events", "listed", "unsure"),
    [
        ([], "", False),
        ([put_in("0:4")], "0:4", True),
        ([put_in("0:4"), YES], "0:4", False),
        ([put_in("0:4"), NO], "", False),
        ([put_in("0:4"), LOST], "0:4", True),
        ([put_in("0:4"), LOST, put_in("0:4"), YES], "0:4", False),
        ([put_in("0:4"), LOST, put_in("0:4"), NO], "0:4", True),
        ([put_in("0:4"), YES, put_in("1:4,2:5")], "0:4,1:4,2:5", True),
        ([put_in("0:4"), YES, put_in("1:4,2:5"), NO], "0:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4")], "0:4,1:4", True),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), YES], "1:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), NO], "0:4,1:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), LOST], "0:4,1:4", True),
        ([put_in("0:4"), YES, take_off("0:4"), YES, PUT_BACK, LOST], "", True),
    ],
)
def test_an_entry_is_ours_from_its_intent_until_kafka_confirms_its_removal(
    events: Sequence[ThrottleEvent], listed: str, *, unsure: bool
) -> None:  # fmt: skip
    throttled = fold(*events)

    ours = throttled.ours[LIST]
    assert ours == SetByRun(UNSET, parse_throttled_list(listed), bool(events), unsure)
    partitions = {TopicPartition("orders", int(each[0])) for each in listed.split(",") if each}
    assert throttled.partitions == partitions


@pytest.mark.parametrize(
    ("events", "values", "unsure"),
    [
        ([rate(5)], {"5"}, True),
        ([rate(5), RATE_YES], {"5"}, False),
        ([rate(5), RATE_NO], set(), False),
        ([rate(5), RATE_LOST], {"5"}, True),
        ([rate(5), RATE_LOST, rate(7)], {"5", "7"}, True),
        ([rate(5), RATE_LOST, rate(7), RATE_YES], {"7"}, False),
        ([rate(5), RATE_YES, rate(7), RATE_LOST], {"5", "7"}, True),
        ([rate(5), RATE_YES, rate(7), RATE_NO], {"5"}, False),
        ([rate(5), RATE_YES, PUT_BACK, RATE_NO], {"5"}, False),
        ([rate(5), RATE_YES, PUT_BACK, RATE_LOST], {"5"}, True),
    ],
)
def test_a_rate_is_ours_as_long_as_it_may_be_set(
    events: Sequence[ThrottleEvent], values: set[str], *, unsure: bool
) -> None:  # fmt: skip
    throttled = fold(*events)

    assert throttled.ours[RATE] == SetByRun(None, frozenset(values), touched=True, unsure=unsure)
    assert throttled.brokers == ([4] if values else [])


def test_a_setting_put_back_or_given_up_is_no_longer_ours() -> None:
    both = fold(rate(5), RATE_YES, put_in("0:4"), YES)
    assert not both.clean

    both.apply(PUT_BACK)
    both.apply(YES)
    assert list(both.ours) == [RATE]
    both.apply(
        SettingsGivenUp(resource=RATE[0], keys=(RATE[1],), reason="someone else set it to 9")
    )

    assert both.clean


class NeverScanned(dict[SettingKey, SetByRun]):
    """Settings of so many topics that nobody may look through all of them for one."""

    def __iter__(self) -> Iterator[SettingKey]:
        raise AssertionError


def test_to_put_a_setting_back_costs_the_same_however_many_there_are() -> None:
    throttled = fold(put_in("0:4"), YES, PUT_BACK)
    throttled.ours = NeverScanned(throttled.ours)

    throttled.apply(YES)

    assert [*throttled.ours.keys() & {LIST, RATE}] == [RATE]


def test_the_value_found_at_first_is_never_forgotten() -> None:
    again = FoundSetting(*RATE, Setting("5", ConfigSource.OWN))

    throttled = fold(rate(5), RATE_LOST, SettingsFound(found=(again,)))

    assert throttled.ours[RATE].before is None


def test_a_refusal_is_kept_until_the_change_is_accepted_or_another_rate_requested() -> None:
    refusal = answer(Verdict.REFUSED, "the list is too long")
    refused = fold(put_in("0:4"), refusal, rate(5), RATE_YES)
    assert refused.refusal == "the list is too long"

    assert fold(put_in("0:4"), refusal, put_in("0:4"), YES).refusal == ""
    refused.apply(ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("5MB")))
    assert refused.refusal == ""
    assert refused.rates == parse_throttle_rates("5MB")


def test_an_unanswered_change_is_known_until_its_resource_is_answered() -> None:
    throttled = fold(put_in("0:4"), LOST, rate(5))
    assert throttled.asked.keys() == {LIST[0], RATE[0]}

    throttled.apply(RATE_NO)
    throttled.apply(put_in("0:4"))
    throttled.apply(YES)

    assert not throttled.asked


class _Kafka:
    """The real list of a topic, by the changes that arrived."""

    def __init__(self) -> None:
        self.listed: frozenset[str] = frozenset()

    def take(self, change: ConfigChange) -> None:
        values = parse_throttled_list(change.value or "")
        added = change.op is APPEND
        self.listed = self.listed | values if added else self.listed - values


_ENTRY = st.sets(st.integers(0, 4), min_size=1).map(
    lambda numbers: ",".join(f"{number}:4" for number in sorted(numbers))
)
_CHANGE = st.builds(change_list, st.sampled_from((APPEND, SUBTRACT)), _ENTRY)
_HAPPENS = st.tuples(_CHANGE, st.sampled_from(Verdict), st.booleans())


@given(st.lists(_HAPPENS, max_size=12))
def test_every_entry_of_ours_that_is_listed_is_known_whatever_is_answered(
    happens: list[tuple[ConfigChange, Verdict, bool]],
) -> None:
    throttled, kafka = fold(), _Kafka()
    for change, verdict, arrived in happens:
        for event in (Configure(changes=(change,)), answer(verdict)):
            throttled.apply(decode(encode(event)))  # type: ignore[arg-type] # it is one of throttles
        if verdict is Verdict.ACCEPTED or (verdict is Verdict.UNKNOWN and arrived):
            kafka.take(change)

        known = throttled.held(LIST)
        assert kafka.listed <= known
        assert throttled.ours[LIST].unsure or known == kafka.listed
