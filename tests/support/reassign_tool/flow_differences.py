"""The known differences between the programs on a cluster: in single lines, and in throttles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from support.reassign_tool.answer import Answer, ClusterState

Throttles = Mapping[str, Mapping[str, str]]
Setting = tuple[str, str]
"""A throttle setting by its resource, such as `broker 1`, and its key."""

_NO_MOVES = "None of the specified partition moves are active."


class LineDifference(msgspec.Struct, frozen=True):
    """Lines that are not compared, since one of the programs prints others or none."""

    name: str
    why: str
    pattern: re.Pattern[str]
    applies: Callable[[Sequence[str]], bool]
    """Whether the lines may differ in the answer to these words."""


class ThrottleDifference(msgspec.Struct, frozen=True):
    """Throttles that ktui sets in another way."""

    name: str
    why: str
    instead: Callable[[Throttles], Throttles]
    """Turns the throttles that Apache's tool has set into those of ktui."""


def _is(*options: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: set(options) <= set(words)


def _clears(words: Sequence[str]) -> bool:
    return not {"--verify", "--cancel"}.isdisjoint(words)


def _of_copies(throttles: Throttles) -> Throttles:
    """Leave out topics without a throttled follower, and the rates if no topic is left."""
    topics = {
        name: settings
        for name, settings in throttles.items()
        if name.startswith("topic ") and settings.get(FOLLOWER_REPLICAS) != ""
    }
    if len(topics) == sum(name.startswith("topic ") for name in throttles):
        return throttles
    brokers = {name: each for name, each in throttles.items() if name.startswith("broker ")}
    return {**(brokers if topics else {}), **topics}


def _where_they_bind(throttles: Throttles) -> Throttles:
    sources = _listed(throttles, LEADER_REPLICAS)
    destinations = _listed(throttles, FOLLOWER_REPLICAS)
    kept: dict[str, Mapping[str, str]] = {}
    for name, settings in throttles.items():
        rates = dict(settings)
        if {LEADER_RATE, FOLLOWER_RATE} <= rates.keys() and sources | destinations:
            if name not in sources:
                del rates[LEADER_RATE]
            if name not in destinations:
                del rates[FOLLOWER_RATE]
        if rates:
            kept[name] = rates
    return kept


def _listed(throttles: Throttles, key: str) -> set[str]:
    """Return the brokers of the throttled replicas of all topics, as `broker 1`."""
    lists = (settings.get(key, "") for settings in throttles.values())
    return {
        f"broker {entry.partition(':')[2]}"
        for listed in lists
        for entry in listed.split(",")
        if ":" in entry
    }


LINES = (
    LineDifference(
        "only throttles that were set",
        "ktui names the throttles that it removes: those of its state directory and of the file. "
        "Apache's tool names all brokers and the topics of the file. The settings after it are "
        "compared.",
        re.compile(r"Clearing (broker|topic)-level throttles on .*"),
        _clears,
    ),
    LineDifference(
        "throttles that stay",
        "ktui names on standard error which throttles it leaves, and how to remove them; and that "
        "it watches the cluster before it removes any that somebody else has set.",
        re.compile(r"throttles (may )?stay on .*|watching for \d+ s, before throttles go .*"),
        _clears,
    ),
    LineDifference(
        "a low throttle",
        "ktui warns on standard error of a rate in bytes under which a fetch takes long.",
        re.compile(r"warning: at .* one fetch of 1 MiB takes .*"),
        _is("--execute", "--throttle"),
    ),
    LineDifference(
        "what has started",
        "Where not all of a plan was started, ktui says on standard error what was.",
        re.compile(r"started: .*"),
        _is("--execute"),
    ),
    LineDifference(
        "cancelled by a controller",
        "ktui says on standard error that controllers do not report who is in sync, and that "
        "throttles stay.",
        re.compile(r"controllers do not report .*|throttles stay as they are: controllers .*"),
        _is("--bootstrap-controller", "--cancel"),
    ),
    LineDifference(
        "the first owner of a cluster",
        "On a cluster without consumer groups ktui says that owning it creates a topic.",
        re.compile(r"note: no consumer group was ever used on this cluster\..*"),
        _is("--execute"),
    ),
    LineDifference(
        "the way back of a moving partition",
        "Of a partition that moves, ktui prints the replicas before its move. Apache's tool "
        "prints those together with the new ones, which is no way back.",
        re.compile(r'\{"version":1,"partitions":.*'),
        _is("--execute", "--additional"),
    ),
)
THROTTLES = (
    ThrottleDifference(
        "no throttle without a copy",
        "A reassignment that copies nothing, such as another order of replicas, gets no throttle.",
        _of_copies,
    ),
    ThrottleDifference(
        "rates where they bind",
        "ktui sets the leaders' rate on brokers that are copied from, and the followers' rate on "
        "those that copy. Apache's tool sets both on all of them.",
        _where_they_bind,
    ),
)


def compared(words: Sequence[str], answer: Answer) -> Answer:
    """Return an answer without the lines in which the programs may differ."""
    lines = [each.pattern for each in LINES if each.applies(words)]
    # Apache's tool prints this sentence without a line end.
    stdout = re.sub(rf"{re.escape(_NO_MOVES)}\n?", f"{_NO_MOVES}\n", answer.stdout)
    return Answer(answer.exit_code, _without(lines, stdout), _without(lines, answer.stderr))


def expected_state(
    theirs: ClusterState | None, others: Mapping[Setting, str] = MappingProxyType({})
) -> ClusterState | None:
    """Return the state of the cluster after ktui in place of Apache's tool.

    Args:
        theirs: the state after Apache's tool.
        others: throttles that another program has set. Apache's tool removes them, ktui does not.
    """
    if theirs is None:
        return None
    throttles = theirs.throttles
    for each in THROTTLES:
        throttles = each.instead(throttles)
    kept = {name: dict(settings) for name, settings in throttles.items()}
    for (name, key), value in others.items():
        kept.setdefault(name, {}).setdefault(key, value)
    return ClusterState(theirs.partitions, kept)


def _without(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not any(pattern.fullmatch(line.rstrip("\n")) for pattern in patterns)
    )
