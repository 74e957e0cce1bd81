"""A plan in the view: asked for, shown, and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.captions import Caption, StoryMoment
from ktui.cluster.broker import Broker
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Option, Severity
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import WrongField
from ktui.progress.summary import Totals
from ktui.tui.draw.bars import change_bar
from ktui.tui.draw.cells import pieces_width
from ktui.tui.poll import Overview
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.run_view.launchers import BadCommand
from ktui.tui.run_view.plan_request import SOURCES, PlanRequest, parse_plan_words
from ktui.tui.screens.plan.preview_lines import (
    EVERYTHING,
    PreviewSection,
    preview_lines,
    step_of,
    worst_of,
)
from ktui.tui.story import CaptionLine, CaptionTrack, StoryMoments, picture_name, save_picture
from support.cli.start_sandbox import GB, Way, a_plan, a_snapshot, preflight
from support.layouts import healthy, layout, targets
from support.views.screens import plain

ALL: Way = ((1, 2, 3), (4, 2, 3))
ROOMY, TIGHT = (100 * GB, 50 * GB), (100 * GB, 3 * GB)
counts = st.integers(0, 10**12)


@given(counts, counts, counts, st.integers(0, 10**13), st.integers(3, 60))
def test_a_bar_fills_its_cells_and_leaves_nothing_out(
    stays: int, comes: int, goes: int, whole: int, cells: int
) -> None:
    drawn = plain(change_bar(stays, comes, goes, whole, cells))

    assert len(drawn) == cells
    signs = (("█", stays), ("▓", comes), ("░", goes))
    assert all((sign in drawn) is (count > 0) for sign, count in signs)


def test_a_bar_shows_what_stays_comes_and_goes() -> None:
    drawn = plain(change_bar(4, 2, 1, 10, 10))

    assert drawn == "████▓▓░···"


def drawn(width: int, *sections: PreviewSection, **more: Any) -> str:
    figures = preflight(a_plan(ALL), a_snapshot(ALL, **more), Limits(replicas=1))
    lines = preview_lines(figures, sections or EVERYTHING, width)
    assert max(map(pieces_width, lines)) <= width
    return "\n".join(plain(line) for line in lines)


def words(line: str) -> list[str]:
    return [each for each in line.split() if not set(each) <= set("█▓░·")]


@pytest.mark.parametrize("width", [64, 76, 140])
def test_each_broker_is_drawn_before_and_after(width: int) -> None:
    sizes, rooms = [2 * GB], {1: ROOMY, 4: ROOMY}
    lines = drawn(width, PreviewSection.BROKERS, sizes=sizes, rooms=rooms).splitlines()

    counted = [words(line) for line in lines if line[:1].isdigit()]
    assert counted[0][:8] == ["1", "1", "→", "0", "-1", "1", "→", "0"]
    disk = next(line for line in lines if line.startswith("4") and "GiB" in line)
    assert "+1.9 GiB" in disk
    assert "47 GiB → 45 GiB" in disk


def test_a_size_that_is_not_known_is_named() -> None:
    text = drawn(80, sizes=[None], rooms={4: ROOMY})

    assert "size not known" in text
    assert "time  unknown" in text


def test_a_disk_that_does_not_report_its_room_is_named() -> None:
    assert "room not known" in drawn(80, sizes=[2 * GB])


def test_too_little_room_has_a_sign() -> None:
    assert "954 MiB!" in drawn(80, sizes=[2 * GB], rooms={4: TIGHT})


def test_of_very_many_brokers_only_those_that_change_are_listed() -> None:
    text = drawn(80, PreviewSection.BROKERS, brokers={n: Broker(n) for n in range(1, 61)})

    assert "and 58 more that do not change" in text


def finding(
    kind: FindingKind, severity: Severity = Severity.WARNING, option: Option | None = None
) -> Finding:
    return Finding(severity, kind, (), "", option=option)


def test_each_finding_belongs_to_the_step_in_which_it_is_mended() -> None:
    factor = Option.REPLICATION_FACTOR_CHANGE
    unknown = finding(FindingKind.TOPIC_UNKNOWN, Severity.PROBLEM)
    allowed = finding(FindingKind.REPLICATION_FACTOR_CHANGE, Severity.PROBLEM, factor)
    slow, wide = finding(FindingKind.NEVER_ENDS), finding(FindingKind.NEVER_FITS)
    found = [unknown, allowed, slow, wide]

    assert [step_of(each) for each in found] == ["plan", "check", "throttle", "limits"]
    assert worst_of("plan", found) is Severity.PROBLEM
    assert worst_of("limits", found) is Severity.WARNING
    assert worst_of("start", found) is None


CLUSTER = layout(
    {**healthy((1, 2), (1, 2), (1, 3), (1, 2)), **healthy((1, 2), (2, 1), topic="pay")},
    brokers=range(1, 5),
)
DRAIN, FACTOR, SPREAD, SHED = (
    "drain",
    "replication-factor",
    "spread",
    "shed",
)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (PlanRequest(DRAIN, {"brokers": "3, 7"}), "drain-3-7.json"),
        (PlanRequest(FACTOR, {"topics": "orders", "factor": "3"}), "orders-3-replicas.json"),
        (PlanRequest("swap", {"old": "1", "new": "9"}), "swap-1-9.json"),
        (PlanRequest(SPREAD, {"among": "1,2", "by": "leaders"}), "spread-leaders-1-2.json"),
        (PlanRequest(SHED, {"broker": "1", "until": "80%"}), "shed-1.json"),
        (PlanRequest("leaders", {"brokers": "3"}), "leaders.json"),
        (PlanRequest("rack-repair"), "rack-repair.json"),
    ],
)
def test_a_plan_that_is_made_has_a_name(request_: PlanRequest, name: str) -> None:
    assert request_.file.name == name


@pytest.mark.parametrize("text", ["x", "-1", "3.5", "9" * 30, "٣"])
def test_what_is_no_number_is_named_with_its_field(text: str) -> None:
    wrong = {
        "brokers": PlanRequest(DRAIN, {"brokers": text}),
        "among": PlanRequest(SPREAD, {"among": text}),
        "broker": PlanRequest(SHED, {"broker": text, "until": "1GB"}),
        "old": PlanRequest("swap", {"old": text, "new": "2"}),
        "new": PlanRequest("swap", {"old": "1", "new": text}),
    }
    for field, request in wrong.items():
        with pytest.raises(WrongField, match=r"brokers?: .* is not a whole number from 0") as said:
            request.generate(CLUSTER)
        assert said.value.field == field
    with pytest.raises(WrongField, match=r"replicas: .* is not a whole number from 1"):
        PlanRequest(FACTOR, {"topics": "a", "factor": text}).generate(CLUSTER)


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (PlanRequest(DRAIN, {"brokers": "1,9"}), "brokers", "There is no broker 9"),
        (PlanRequest("swap", {"old": "9", "new": "1"}), "old", "There is no broker 9"),
        (PlanRequest("swap", {"old": "1", "new": "9"}), "new", "There is no broker 9"),
        (PlanRequest(FACTOR, {"topics": "ay", "factor": "2"}), "topics", "no topic ay"),
        (PlanRequest(FACTOR, {"topics": "x*", "factor": "2"}), "topics", "No topic matches 'x*'"),
        (PlanRequest(FACTOR, {"topics": "a", "factor": "2"}), "factor", "has 2 replicas already"),
        (PlanRequest(SPREAD, {"within": "lots"}), "within", "'lots' is no share"),
        (PlanRequest(SPREAD, {"within": "300%"}), "within", "'300%' is no share"),
        (PlanRequest(SHED, {"broker": "1", "until": "80%"}), "until", "does not report how large"),
        (PlanRequest(SHED, {"broker": "1", "until": "half"}), "until", "'half' is neither a share"),
    ],
)
def test_what_does_not_fit_the_cluster_names_its_field(
    request_: PlanRequest, field: str, words: str
) -> None:
    with pytest.raises(WrongField) as said:
        request_.generate(CLUSTER)
    assert said.value.field == field
    assert words in str(said.value)


def test_topics_may_be_patterns() -> None:
    made = PlanRequest(FACTOR, {"topics": "p*", "factor": "3"}).generate(CLUSTER)

    assert targets(made).keys() == {"pay-0", "pay-1"}


def test_racks_are_kept_only_where_every_live_broker_has_one() -> None:
    partitions = healthy((1, 3))
    drain_1 = PlanRequest(DRAIN, {"brokers": "1"})
    racked = layout(partitions, brokers=range(1, 4), racks="abb")
    unracked = layout(partitions, brokers=range(1, 4), racks="a")

    with pytest.raises(CannotMake, match="on fewer racks"):
        PlanRequest(SHED, {"broker": "1", "until": "1"}).generate(racked)
    assert targets(drain_1.generate(unracked)) == {"a-0": (3, 2)}


def test_only_what_a_source_needs_has_to_be_typed() -> None:
    for source in SOURCES:
        fields = PlanRequest(source).needed
        typed = PlanRequest(source, dict.fromkeys(fields, "1"))
        assert typed.words
    assert not PlanRequest("swap", {"old": "1"}).words


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("drain 3 7", PlanRequest("drain", {"brokers": "3,7"})),
        ("drain", PlanRequest("drain")),
        ("swap 3 7", PlanRequest("swap", {"old": "3", "new": "7"})),
        (
            "shed 3 --below 80% --keep-order",
            PlanRequest("shed", {"broker": "3", "until": "80%", "keep_order": "yes"}),
        ),
        (
            "replication-factor 3 orders pay-*",
            PlanRequest("replication-factor", {"factor": "3", "topics": "orders,pay-*"}),
        ),
        (
            "spread --by=leaders --within 5% --brokers 1,2",
            PlanRequest("spread", {"by": "leaders", "within": "5%", "among": "1,2"}),
        ),
        (
            "placement rules.yaml --topics o* --exclude audit --max-bytes 5GB",
            PlanRequest(
                "placement",
                {"rules": "rules.yaml", "only": "o*", "exclude": "audit", "max_bytes": "5GB"},
            ),
        ),
    ],
)
def test_the_words_of_the_shell_fill_the_fields(line: str, request_: PlanRequest) -> None:
    assert parse_plan_words(line.split()) == request_


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("drian 3", "there is no plan 'drian'. Did you mean drain?"),
        ("", "there is no plan ''. Use drain or fill"),
        ("swap 3 7 9", "swap: nothing may follow 3 7"),
        ("leaders --max-moves 3", "leaders has no option --max-moves here. It has --topics"),
        ("drain 3 --max-moves", "--max-moves needs a value"),
        ("spread --by size", "--by: 'size' is not one of bytes"),
    ],
)
def test_what_the_fields_have_no_place_for_is_refused(line: str, problem: str) -> None:
    with pytest.raises(BadCommand) as said:
        parse_plan_words(line.split())
    assert problem in str(said.value)


CAPTIONS = (
    Caption(say="one", at_s=0.0),
    Caption(say="two", at_s=60.0),
    Caption(say="three", when=StoryMoment.STALLED),
    Caption(say="four", at_s=90.0),
)


def said(track: CaptionTrack, now_s: float, *seen: StoryMoment) -> str | None:
    track.advance(now_s, set(seen))
    return None if track.shown is None else track.shown.say


def test_captions_come_at_their_times_and_moments() -> None:
    track = CaptionTrack(CAPTIONS)
    assert said(track, -1.0) is None
    assert said(track, 0.0) == "one"
    assert said(track, 60.0) == "two"
    assert said(track, 70.0, StoryMoment.STALLED) == "three"
    assert said(track, 90.0, StoryMoment.STALLED) == "four"


def test_no_earlier_caption_comes_back() -> None:
    track = CaptionTrack(CAPTIONS)
    assert said(track, 30.0, StoryMoment.STALLED) == "three"
    assert said(track, 60.0, StoryMoment.STALLED) == "three"


def moments(*seen: Overview, run: RunStatus | None = None) -> set[StoryMoment]:
    found = StoryMoments()
    for each in seen:
        found.note(each, run)
    return found.seen


def shows(**sums: int) -> Overview:
    return Overview(msgspec.structs.replace(Totals(), **sums), brokers=3)


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        (shows(moving=1), StoryMoment.MOVING),
        (shows(falling_behind=1), StoryMoment.BEHIND),
        (shows(stalled=1), StoryMoment.STALLED),
        (shows(done=1), StoryMoment.DONE),
        (shows(cancelled=1), StoryMoment.CANCELLED),
        (shows(topic_gone=1), StoryMoment.TOPIC_GONE),
        (Overview(brokers=3, down=(2,)), StoryMoment.BROKER_DOWN),
    ],
)
def test_a_moment_has_come_once_the_view_shows_it(now: Overview, moment: StoryMoment) -> None:
    assert moment in moments(now)
    assert moment not in moments(shows())


def test_a_story_has_recovered_when_no_trouble_is_left() -> None:
    moving, stalled = shows(moving=1), shows(moving=1, stalled=1)
    assert StoryMoment.RECOVERED not in moments(moving, stalled)
    assert StoryMoment.RECOVERED in moments(moving, stalled, moving)


def test_a_story_is_over_when_nothing_moves_any_more() -> None:
    assert StoryMoment.OVER not in moments(shows())
    assert StoryMoment.OVER not in moments(shows(moving=1), shows(settling=1))
    assert StoryMoment.OVER in moments(shows(moving=1), shows(done=1))


def test_between_two_steps_of_a_run_its_story_is_not_over() -> None:
    run = RunStatus(name="x", state=RunState.RUNNING, counts={State.DONE: 1})
    found = moments(shows(moving=1), shows(), run=run)
    assert StoryMoment.OVER not in found
    assert StoryMoment.DONE in found
    ended = msgspec.structs.replace(run, state=RunState.ENDED)
    assert StoryMoment.OVER in moments(shows(moving=1), shows(), run=ended)


def test_the_line_is_as_high_as_the_longest_caption() -> None:
    size = (None, None)
    line = CaptionLine([Caption(say="short"), Caption(say="word " * 20)])
    assert line.get_content_height(*size, 40) == 3  # type: ignore[arg-type]  # not looked at
    assert line.get_content_height(*size, 120) == 1  # type: ignore[arg-type]  # not looked at


def test_a_picture_is_named_by_its_story_and_its_time() -> None:
    assert picture_name("dead-target", 125.9) == "dead-target-2m05s"
    assert picture_name("../a b", 0.0) == "a-b-0m00s"
    assert picture_name("", 0.0) == "story-0m00s"


def test_no_picture_replaces_another(tmp_path: Path) -> None:
    paths = [save_picture(tmp_path, "x-0m01s", f"<svg>{n}</svg>") for n in range(3)]
    assert [path.name for path in paths] == ["x-0m01s.svg", "x-0m01s-2.svg", "x-0m01s-3.svg"]
    assert paths[1].read_text(encoding="utf-8") == "<svg>1</svg>"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no folder"):
        save_picture(tmp_path / "gone", "x", "<svg/>")
