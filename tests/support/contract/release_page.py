"""A page for a maintainer: what a release of Kafka does differently from another, by kind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from support.contract.sequences import (
    Answer,
    Cordon,
    Kill,
    Outcome,
    Played,
    Restart,
    Seen,
    Step,
    Uncordon,
)
from support.contract.surroundings import Surroundings, built_requests
from support.reassign_tool import recording as tool
from support.reassign_tool.recording import Answer as Printed

_KINDS = 8  # kinds that a section shows, the most frequent first
_WIDTH = 150
_VERSION_OF_TOOL = re.compile(r"kafka-tools-([\d.]+)\.jar")
_NUMBER = re.compile(r"\d+")


class Found(NamedTuple):
    """One difference."""

    kind: str
    size: int  # how much there is to read: the example of a kind is the smallest of it
    example: tuple[str, ...]


class Version(NamedTuple):
    """What was recorded of one version of Kafka."""

    number: str
    sequences: Sequence[Played]
    surroundings: Surroundings
    tool: tool.Recording


class Simulated(NamedTuple):
    """The same sequences on a simulated cluster."""

    number: str
    sequences: Mapping[str, Played]


def page(old: Version, new: Version, simulated: Simulated, contract: Sequence[str]) -> str:
    """Return the page.

    Args:
        old: the version to compare with.
        new: the version that the page is about.
        simulated: what ktui's simulated cluster does in its place.
        contract: the outcome of the contract's tests on it, and those that failed.
    """
    found = list(sequence_differences(old, new, simulated))
    steps = sum(len(one.outcomes) for one in new.sequences)
    answers = len(new.tool.lists) + sum(len(each.outcomes) for each in new.tool.flows)
    lines = [
        f"# Kafka {new.number} against {old.number}",
        "",
        *_section(
            f"The contract's tests on {new.number}",
            [f"- {line}" for line in contract],
        ),
        *_section(f"Sequences: {len(new.sequences)} with {steps} steps", _by_kind(found)),
        _as_simulated(new, simulated),
        "",
        *_section(
            f"kafka-reassign-partitions: {answers} answers",
            _by_kind(list(tool_differences(old.tool, new.tool))),
        ),
        *_section(
            "Files, APIs, features and classes",
            [*surrounding_differences(old.surroundings, new.surroundings)] or ["The same."],
        ),
    ]
    return "\n".join(lines)


def _as_simulated(new: Version, simulated: Simulated) -> str:
    unlike = [one.sequence.name for one in new.sequences if one != _at(simulated, one)]
    alike = f"all but {len(unlike)}, {unlike[0]!r} among them" if unlike else "all of them"
    return f"ktui's simulated {simulated.number} does what {new.number} does in {alike}."


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from (f"## {title}", "", *lines, "")


def _by_kind(found: Sequence[Found]) -> Iterator[str]:
    if not found:
        yield "The same."
        return
    kinds: dict[str, list[Found]] = defaultdict(list)
    for each in found:
        kinds[each.kind].append(each)
    ranked = sorted(kinds.values(), key=lambda group: (-len(group), group[0].kind))
    for group in ranked[:_KINDS]:
        yield f"- {len(group)} x {group[0].kind}"
        smallest = min(group, key=lambda each: each.size)
        yield from (f"    {_short(line)}" for line in smallest.example)
    rest = ranked[_KINDS:]
    if rest:
        yield f"- {sum(map(len, rest))} more, of {len(rest)} other kinds"


def sequence_differences(old: Version, new: Version, simulated: Simulated) -> Iterator[Found]:
    """Yield the first differing step of each sequence."""
    before = {played.sequence.name: played for played in old.sequences}
    for played in new.sequences:
        pairs = zip(before[played.sequence.name].outcomes, played.outcomes, strict=True)
        for number, (was, now) in enumerate(pairs):
            if was != now:
                there = _at(simulated, played).outcomes[number]
                told = (
                    (old.number, was),
                    (new.number, now),
                    (f"simulated {simulated.number}", there),
                )
                yield _difference(played, number, told)
                break


def _at(simulated: Simulated, played: Played) -> Played:
    return simulated.sequences[played.sequence.name]


def _difference(played: Played, number: int, told: Sequence[tuple[str, Outcome]]) -> Found:
    steps = played.sequence.steps
    was, now = told[0][1], told[1][1]
    part = next(each for each in _parts(was, now) if _part(was, each) != _part(now, each))
    words = [_words_of(_part(outcome, part)) for _, outcome in told]
    change = f"{_general(words[0])} -> {_general(words[1])}"
    if part[0] == "partitions":
        change = _change_of_state(_part(was, part), _part(now, part))
    example = (
        f"{played.sequence.name!r}, from {_lists(played.sequence.replicas)}",
        *(f"after {_step(step)}" for step in steps[:number]),
        f"at {_step(steps[number])}, {part[0]} {part[1]}:",
        *(f"  {who}: {what}" for (who, _), what in zip(told[:2], words, strict=False)),
        f"  {told[2][0]}: {'the same' if words[2] == words[1] else words[2]}",
    )
    kind = f"{type(steps[number]).__name__}{_beside(steps[:number])}: {change}"
    return Found(kind, sum(map(len, example[:-3])), example)


def _change_of_state(was: object, now: object) -> str:
    """Return how a partition is another after the same answer; a move that ends is told first."""
    if not isinstance(was, Seen) or not isinstance(now, Seen):
        return "another number of partitions"
    if was.listed != now.listed:
        return "a move is done" if was.listed else "a move goes on"
    fields = Seen.__struct_fields__
    return f"other {', '.join(key for key in fields if getattr(was, key) != getattr(now, key))}"


def _parts(was: Outcome, now: Outcome) -> Iterator[tuple[str, int]]:
    """Yield the places in which two outcomes can differ, the most telling first."""
    yield from (("answer", key) for key in sorted(was.answers.keys() | now.answers.keys()))
    yield "placed", 0
    yield from (("partitions", key) for key in range(max(len(was.partitions), len(now.partitions))))


def _part(outcome: Outcome, part: tuple[str, int]) -> Answer | Seen | tuple[int, ...] | None:
    kind, key = part
    if kind == "answer":
        return outcome.answers.get(key)
    if kind == "placed":
        return outcome.placed
    return outcome.partitions[key] if key < len(outcome.partitions) else None


def _words_of(part: Answer | Seen | tuple[int, ...] | None) -> str:
    match part:
        case Answer(verdict, code, message):
            return " ".join(filter(None, (verdict, code, f'"{message}"' if message else "")))
        case Seen():
            return msgspec.json.encode(part).decode()
        case None:
            return "nothing"
        case _:
            return str(list(part))


def _beside(steps: Iterable[Step]) -> str:
    """Return what is the matter with brokers after some steps."""
    state: dict[int, str] = {}
    for step in steps:
        match step:
            case Kill(broker):
                state[broker] = "dead"
            case Cordon(broker):
                state[broker] = "cordoned"
            case Restart(broker) | Uncordon(broker):
                state.pop(broker, None)
    return f" beside a {' and a '.join(sorted(set(state.values())))} broker" if state else ""


def _step(step: Step) -> str:
    fields = msgspec.structs.asdict(step)
    return " ".join([type(step).__name__, *(f"{key}={value}" for key, value in fields.items())])


def _lists(replicas: Iterable[Iterable[int]]) -> str:
    return " ".join(str(list(each)) for each in replicas)


def tool_differences(old: tool.Recording, new: tool.Recording) -> Iterator[Found]:
    """Yield the first differing answer or state of each argument list and flow."""
    if old.header.help != new.header.help:
        yield _printed("help", "the help text", old.header.help, new.header.help)
    lists = {each.words: each for each in old.lists}
    flows = {flow.name: flow for flow in old.flows}
    versions = _VERSION_OF_TOOL.findall(old.header.jar + new.header.jar)
    for one in new.lists:
        yield from _first((one.name,), [_listed(lists[one.words])], [_listed(one)], versions)
    for flow in new.flows:
        steps = [f"{flow.name}, step {number}" for number in range(1, len(flow.outcomes) + 1)]
        yield from _first(steps, flows[flow.name].outcomes, flow.outcomes, versions)


def _listed(one: tool.RecordedList) -> tool.Outcome:
    return tool.Outcome(one.answer, one.state)


def _first(
    places: Iterable[str],
    old: Iterable[tool.Outcome],
    new: Iterable[tool.Outcome],
    versions: Sequence[str],
) -> Iterator[Found]:
    """Yield the first difference in what the steps printed and left."""
    for where, was, now in zip(places, old, new, strict=True):
        for field in Printed.__struct_fields__:
            before, after = (
                str(getattr(each.answer, field, "")).replace(version, "<version>")
                for each, version in zip((was, now), versions, strict=True)
            )
            if before != after:
                yield _printed(field, where, before, after)
                return
        if was.state != now.state:
            before, after = (msgspec.json.encode(each.state).decode() for each in (was, now))
            yield Found("another state of the cluster", len(where), (where, before, after))
            return


def _printed(field: str, where: str, was: str, now: str) -> Found:
    """Return the difference of two texts: the first lines that only one of them has."""
    before, after = was.splitlines(), now.splitlines()
    gone = next((line for line in before if line not in after), "")
    new = next((line for line in after if line not in before), "")
    kind = f"{field}: {_general(gone) or 'nothing'} -> {_general(new) or 'nothing'}"
    return Found(_short(kind), len(where), (where, f"  was: {gone}", f"  now: {new}"))


def surrounding_differences(old: Surroundings, new: Surroundings) -> Iterator[str]:
    """Yield a line for each change around the behaviour."""
    built = built_requests()
    files_before, files_now = dict.fromkeys(old.formatted, ""), dict.fromkeys(new.formatted, "")
    yield from _changes("a formatted controller has", files_before, files_now)
    for node, apis in new.apis.items():
        was, now = _marked(old.apis[node], built), _marked(apis, built)
        yield from _changes(f"API of a {node} (* ktui builds its requests)", was, now)
    yield from _changes("feature", old.features, new.features)
    shared = old.classes.keys() & new.classes.keys()  # what the project named at both times
    yield from _changes(
        "class",
        {name: old.classes[name] for name in shared},
        {name: new.classes[name] for name in shared},
    )


def _marked(apis: Mapping[str, str], built: Container[str]) -> dict[str, str]:
    return {f"{name}*" if name in built else name: versions for name, versions in apis.items()}


def _changes(what: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield what came, what went and what changed, each in one line."""
    gone = [f"{key} {was[key]}".rstrip() for key in sorted(was.keys() - now.keys())]
    new = [f"{key} {now[key]}".rstrip() for key in sorted(now.keys() - was.keys())]
    other = [
        f"{key} {was[key]} -> {now[key]}"
        for key in sorted(was.keys() & now.keys())
        if was[key] != now[key]
    ]
    for how, names in (("no longer", gone), ("new", new), ("other", other)):
        if names:
            yield f"- {what}, {how}: {'; '.join(names)}"


def _general(text: str) -> str:
    return _NUMBER.sub("N", text)


def _short(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
