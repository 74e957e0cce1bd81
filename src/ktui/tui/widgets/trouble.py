"""What is wrong, the most urgent first, each with the actions that help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ktui.cluster.errors import Failure, Operation
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.planning.plan import join_some
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.widgets.services import Status

_NAMED = 4  # the most brokers named as down; there is no room for more
_NO_KEYS: Mapping[str, str] = {}


class Help(NamedTuple):
    """An action that helps with a trouble; its key is the one that is bound to it."""

    action: str
    words: str
    role: str = "stalled"


_BROKERS = (Help("show_brokers", "brokers"),)
_FOREIGN = (Help("cancel_foreign", "cancel foreign move"),)
_RUNS = (Help("show_runs", "runs"),)
_ENGINE = (Help("resume_run", "resume"), Help("cancel", "call off"))
_UNHEALTHY = (Help("view", "show unhealthy"),)
_REDUCED = (Help("view", "show unhealthy", "falling-behind"),)


class Trouble(NamedTuple):
    """One thing that is wrong."""

    words: str
    """What is wrong, and behind a colon the detail; the keys that help stand between the two."""
    helps: tuple[Help, ...] = ()
    role: str = "stalled"
    command: str = ""
    whole: bool = False


def troubles(status: Status) -> list[Trouble]:
    """Return all that is wrong, the most urgent first; only the outage while there is one."""
    if status.outage is not None:
        return [_outage(status)]
    return [
        *_of_engine(status.run),
        *_lost_partitions(status),
        *_down(status),
        *_stalls(status),
        *_of_throttle(status.run),
        *_reduced(status),
        *_denied(status),
    ]


def helps(status: Status) -> list[Help]:
    """Return the actions that help now, each once, those for the most urgent trouble first."""
    found = [help_ for trouble in troubles(status) for help_ in trouble.helps]
    if status.cancel_gate and not (status.run is not None and status.run.rolling_back):
        found.append(Help("open_gate", "allow new moves", "falling-behind"))
    if status.run is not None and status.run.state is RunState.PAUSED:
        found.append(Help("pause", "continue", "falling-behind"))
    return list({each.action: each for each in reversed(found)}.values())[::-1]


def _outage(status: Status) -> Trouble:
    reason = "" if status.outage is None else status.outage.reason
    age = (
        ""
        if status.last is None
        else (f", last answer {figures.as_age(status.now_s - status.last.monotonic_s)} ago")
    )
    return Trouble(f"cluster does not answer{age}, retrying: {reason}", whole=True)


def _of_engine(run: RunStatus | None) -> Iterator[Trouble]:
    if run is None or run.state is not RunState.RESUMABLE:
        return
    if run.died:
        yield Trouble(f"ENGINE DIED: {run.died}", _ENGINE, whole=True)
    else:
        why = f": {run.why}" if run.why else ""
        yield Trouble(f"run {run.name} WAITS FOR RESUME{why}", _ENGINE, whole=True)


def _lost_partitions(status: Status) -> Iterator[Trouble]:
    health = status.overview.health
    if health.offline:
        yield Trouble(f"{health.offline:,} offline", _UNHEALTHY)
    if health.under_min_isr:
        yield Trouble(f"{health.under_min_isr:,} under min ISR", _UNHEALTHY)


def _down(status: Status) -> Iterator[Trouble]:
    down = status.overview.down
    if not down:
        return
    named = ", ".join(map(str, down[:_NAMED])) + (" …" if len(down) > _NAMED else "")
    noun = "broker" if len(down) == 1 else "brokers"
    yield Trouble(f"{noun} {named} down{_down_for(status, down)}", _BROKERS)


def _down_for(status: Status, down: Sequence[int]) -> str:
    since = [status.down_since_s.get(broker) for broker in down]
    known = [each for each in since if each is not None]
    if len(known) < len(since):
        return ""
    return f" {figures.as_age(status.now_s - min(known))}"


def own_stalls(status: Status) -> int:
    """Count the stalled partitions that the trouble line does not show as foreign."""
    foreign = set(status.foreign_stalled)
    return sum(tp not in foreign for tp in status.overview.stalled)


def _stalls(status: Status) -> Iterator[Trouble]:
    if own := own_stalls(status):
        yield Trouble(f"{own:,} STALLED", (Help("open", "detail"),))
    of_runs = [tp for tp in status.foreign_stalled if tp in status.movers]
    if of_runs:
        runs = sorted({status.movers[tp] for tp in of_runs})
        noun = "run" if len(runs) == 1 else "runs"
        yield Trouble(f"{len(of_runs):,} STALLED of {noun} {join_some(runs)}", _RUNS)
    others = [tp for tp in status.foreign_stalled if tp not in status.movers]
    if others:
        yield Trouble(
            f"{len(others):,} STALLED, foreign: {others[0]}{' …' if len(others) > 1 else ''}",
            _FOREIGN,
        )
    if count := held_up(status):
        yield Trouble(f"{count:,} held up", (Help("open", "detail"),), "falling-behind")


def held_up(status: Status) -> int:
    """Count what cannot copy now: it may pass by itself, and counts as stalled after 30 s."""
    counts = {} if status.run is None else status.run.counts
    reported = max(0, counts.get(State.STALLED, 0) - own_stalls(status))  # the engine saw it first
    return max(0, status.overview.totals.held_up - reported)


def _of_throttle(run: RunStatus | None) -> Iterator[Trouble]:
    if run is None or run.state is RunState.ENDED:
        return
    refusal = run.throttle.refusal
    if run.traffic.too_low:
        yield Trouble(run.traffic.too_low, (Help("show_throttle", "raise throttle"),))
    elif refusal:
        yield Trouble(f"throttle refused: {refusal}", (Help("show_throttle", "change throttle"),))
    elif run.traffic.broken:
        yield Trouble(run.traffic.broken, (Help("show_throttle", "see throttle"),))


def _reduced(status: Status) -> Iterator[Trouble]:
    count = status.overview.health.under_replicated
    if count:
        yield Trouble(f"{count:,} under-replicated", _REDUCED, "falling-behind")
    if status.left_behind:
        throttles = figures.as_count(status.left_behind, "throttle")
        yield Trouble(f"{throttles} left behind?", (), "falling-behind", "ktui doctor")


def _denied(status: Status) -> Iterator[Trouble]:
    failures = () if status.last is None else status.last.failures
    by_operation: dict[Operation, list[Failure]] = {}
    for failure in failures:
        if failure.denied:
            by_operation.setdefault(failure.operation, []).append(failure)
    for number, (operation, denied) in enumerate(by_operation.items()):
        allowed, resource = operation.needs
        topics = sorted({each.topic for each in denied if each.topic is not None})
        which = "" if not topics else f" {topics[0]}" + (" …" if len(topics) > 1 else "")
        words = f"{operation} ({allowed} on {resource}{which})"
        lead = "" if number else "no permission: "  # the others stand right behind the first
        yield Trouble(lead + words, role="falling-behind", whole=True)


def fit_troubles(
    found: Sequence[Trouble], room: int, keys: Mapping[str, str] = _NO_KEYS
) -> list[Piece]:
    """Fit troubles into `room` cells with their keys; those that do not fit are counted."""
    if not found:
        return []
    found = _in_few_words(found, room, keys)
    pieces = [Piece("‼ ", found[0].role, bold=True), *_pieces(found[0], keys)]
    for number, trouble in enumerate(found[1:], 1):
        more = [Piece(" · ", "dim"), *_pieces(trouble, keys)]
        rest = len(found) - number - 1
        if pieces_width([*pieces, *more]) > room - (len(_more(rest)) if rest else 0):
            return [*pieces, Piece(_more(len(found) - number), trouble.role, bold=True)]
        pieces += more
    return pieces


def _in_few_words(found: Sequence[Trouble], room: int, keys: Mapping[str, str]) -> list[Trouble]:
    fitted = list(found)
    for place in reversed(range(len(fitted))):
        if sum(pieces_width(_pieces(each, keys)) + 3 for each in fitted) - 1 <= room:
            break
        if not fitted[place].whole:
            fitted[place] = fitted[place]._replace(words=_short(fitted[place].words))
    return fitted


def _short(words: str) -> str:
    """Leave out the detail behind a colon, but not what is needed to mend it."""
    what, _, detail = words.partition(": ")
    needs = detail.rpartition(", ")[2]
    return f"{what}: {needs}" if needs.startswith("needs ") else what


def _more(count: int) -> str:
    return f" · +{count}"


def _pieces(trouble: Trouble, keys: Mapping[str, str]) -> list[Piece]:
    how = trouble.command or _keys_text(trouble.helps, keys)
    if not how:
        return [Piece(trouble.words, trouble.role, bold=True)]
    what, colon, detail = trouble.words.partition(": ")
    pieces = [Piece(what, trouble.role, bold=True), Piece(f" ({how})")]
    return [*pieces, Piece(colon + detail, trouble.role, bold=True)] if detail else pieces


def _keys_text(offered: Sequence[Help], keys: Mapping[str, str]) -> str:
    bound = [each for each in offered if each.action in keys]
    if len(bound) == 1:
        return keys[bound[0].action]
    return ", ".join(f"{keys[each.action]} {each.words}" for each in bound)
