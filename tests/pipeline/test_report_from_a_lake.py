"""A report is made from the lake alone, and cites its sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from ktui.cli.pipeline.group import command as pipeline
from ktui.execution.run.events import LimitsChanged, Started, encode
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import DataFile, PipelineProblem, TablePart
from ktui.pipeline.lake.records import InFlightCounts, Interval, LimitsSince, ReportFacts, RunRecord
from ktui.pipeline.report.figures.figure import MARKS, Figure
from ktui.pipeline.report.lake import (
    ArrowLake,
    Subject,
    UnusableLine,
    choose_subject,
    records,
    trace_provenance,
)
from ktui.pipeline.report.load import load_facts, without_overlaps
from ktui.pipeline.report.page import COLUMNS, FIGURES, figures_json, moves_rows, page, summary
from support.pipeline.report_facts import BEGAN, MINUTE, a_provenance, a_run
from support.pipeline.report_lake import CHECKSUM, SEGMENT, rows_of, write_lake

Ktui = Callable[..., Result]


@pytest.fixture(scope="module")
def facts() -> ReportFacts:
    """A made-up run."""
    return a_run(24)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, facts: ReportFacts) -> Path:
    """A lake with that run, and with another cluster on which nothing moved."""
    rows: dict[str, list[dict[str, Any]]] = rows_of(facts)
    rows["polls"].append({"cluster_id": "still:one"})
    rows["run_events"] = [
        {"t": t, "kind": kind, "event": event.decode(), **_of(facts)}
        for t, kind, event in _limit_events()
    ]
    rows["quarantine"] = [
        {
            "cluster_id": "cluster-one",
            "segment": SEGMENT,
            "file": "a.gz",
            "line": 7,
            "reason": "no",
        },
        {"cluster_id": "cluster-one", "segment": "else", "file": "b.gz", "line": 8, "reason": "no"},
    ]
    return write_lake(tmp_path_factory.mktemp("lake") / "lake", rows)


def _of(facts: ReportFacts) -> dict[str, str]:
    run = facts.runs[0]
    return {"cluster_id": facts.cluster_id, "run": run.run, "run_id": run.run_id}


def _limit_events() -> list[tuple[int, str, bytes]]:
    first, second = Limits(partitions=4, replica_movements=10), Limits(partitions=6)
    started = Started(
        cluster_id="cluster-one", plan="plan.json", plan_sha256="", partitions=24, limits=first,
        options=RunOptions(), version="0.1.0",
    )  # fmt: skip
    changed = LimitsChanged(old=first, new=second, batch=1, in_flight=0)
    return [
        (BEGAN + 9_000, "limits", encode(changed)),
        (BEGAN, "started", encode(started)),
        (BEGAN + 10_000, "limits", b'{"event":"of-a-newer-ktui"}'),
    ]


@pytest.fixture
def ktui(lake: Path, tmp_path: Path) -> Ktui:
    """Call `ktui pipeline report` on that lake."""

    def call(*words: str) -> Result:
        where = ("--lake", str(lake), "--state-dir", str(tmp_path))
        return CliRunner().invoke(pipeline, ["report", *where, *words])

    return call


def _load(lake: Path, run: str | None = "drain-4", cluster: str | None = None) -> ReportFacts:
    opened = ArrowLake.open(str(lake))
    return load_facts(opened, choose_subject(opened, run, cluster))


def test_a_report_has_every_fact_of_the_lake(lake: Path, facts: ReportFacts) -> None:
    found = _load(lake)

    assert found.runs == facts.runs
    assert found.moves == facts.moves
    assert set(found.intervals) == set(facts.intervals)
    assert found.guesses == facts.guesses
    assert found.what_ifs == facts.what_ifs
    assert found.rates == facts.rates
    assert found.stalls == facts.stalls
    assert found.slowest == facts.slowest


def test_a_report_lists_the_limits_with_the_moment_they_came_into_force(lake: Path) -> None:
    assert _load(lake).limits == (LimitsSince(BEGAN, 4, 10), LimitsSince(BEGAN + 9_000, 6, None))


def test_a_report_shows_what_happened_and_what_was_not_recorded(
    tmp_path: Path, facts: ReportFacts
) -> None:
    rows = rows_of(facts)
    paused = {"event": "paused", "by": "operator"}
    rows["run_events"] = [
        {"t": BEGAN + 50_000, "kind": "paused", "event": json.dumps(paused), **_of(facts)}
    ]
    dead = [poll for poll in rows["polls"] if 60_000 <= poll["t"] - BEGAN < 90_000]
    for poll in dead:
        poll["alive"] = [1]
    lake = write_lake(tmp_path / "lake", rows)

    found = _load(lake)

    assert found.gaps == ((BEGAN + 366_000, BEGAN + 420_000),)
    assert [(mark.t - BEGAN, mark.says, mark.until) for mark in found.marks] == [
        (50_000, "paused by an operator", facts.span[1]),
        (60_000, "broker 4 went down", BEGAN + 90_000),
        (90_000, "broker 4 was back", None),
    ]
    assert _load(lake, None, "cluster-one").marks[0].says == "drain-4: paused by an operator"


def test_a_run_whose_start_was_not_recorded_has_a_report_and_stops_no_other(
    tmp_path: Path, facts: ReportFacts
) -> None:
    rows = rows_of(facts)
    nothing = dict.fromkeys(("began_t", "ended_t", "plan", "version"))
    rows["runs"].append(rows["runs"][0] | nothing | {"run": "old", "run_id": "old@then"})
    rows["moves"].append(rows["moves"][0] | {"run": "old", "run_id": "old@then"})
    lake = write_lake(tmp_path / "lake", rows)

    assert [run.run for run in _load(lake, None, "cluster-one").runs] == ["drain-4", "old"]
    assert _load(lake).runs == facts.runs
    assert summary(_load(lake, "old")).words[0] == (
        "A plan that was not recorded on cluster cluster-one, from 2026-05-04 13:00:00 to"
        " 2026-05-04 13:02:00 UTC, 2m. It had not ended when the recording did."
    )


def test_a_short_run_has_bars_of_seconds_that_add_up_to_what_was_copied(tmp_path: Path) -> None:
    facts = a_run(4)
    run = msgspec.structs.replace(facts.runs[0], ended=BEGAN + 2 * MINUTE)
    moves = tuple(msgspec.structs.replace(m, ended=BEGAN + 2 * MINUTE) for m in facts.moves)
    facts = msgspec.structs.replace(facts, runs=(run,), moves=moves, intervals=(), in_flight=())
    rows = rows_of(facts)
    rows["samples"] = [
        {
            "t": BEGAN + s * 1000, "topic": "orders", "topic_id": "id", "partition": 0, "leader": 1,
            "adding": [4], "log_start": 0, "sizes": [{"broker": 1, "bytes": 2_000_000}],
            "rates": [{"broker": 4, "follower": 9_000}],
            "ends": [
                {"broker": broker, "end": end, "read_t": BEGAN + s * 1000}
                for broker, end in ((1, 1_000_000), (4, s * 5))
            ],
            **_of(facts),
        }
        for s in range(120)
    ]  # fmt: skip

    found = _load(write_lake(tmp_path / "lake", rows))

    assert found.inflow_ms == 5_000
    assert len(found.inflow) == 24
    assert sum(one.bytes_in or 0 for one in found.inflow) == pytest.approx(119 * 5 * 2)
    assert {one.follower_throttle for one in found.inflow} == {9_000}


def test_polls_of_other_partitions_do_not_count_for_the_run(
    tmp_path: Path, facts: ReportFacts
) -> None:
    rows = rows_of(facts)
    at = BEGAN + 500
    usual = rows["samples"][0] | {"t": at}
    rows["samples"] = [
        usual | {"adding": [4, 5]},
        usual | {"partition": 1, "adding": [], "removing": [3]},
        usual | {"partition": 2, "adding": [], "removing": []},
        usual | {"topic": "other", "adding": [4, 5, 6]},
        usual | {"partition": 3, "shadowed": True},
    ]
    rows["polls"] = [rows["polls"][0] | {"t": at}]
    lake = write_lake(tmp_path / "lake", rows)

    assert _load(lake).in_flight == (InFlightCounts(at, 2, 2),)
    assert _load(lake, None, "cluster-one").in_flight == (InFlightCounts(at, 3, 5),)


def test_a_partition_is_in_one_state_at_a_time() -> None:
    def interval(state: str, began: int, ended: int) -> Interval:
        return Interval(topic="t", partition=0, state=state, began=began, ended=ended)

    given = [interval("electing", 8, 20), interval("queued", 0, 5), interval("in sync", 4, 10)]

    assert list(without_overlaps(given)) == [
        interval("queued", 0, 4), interval("in sync", 4, 8), interval("electing", 8, 20),
    ]  # fmt: skip


def test_a_quiet_cluster_has_a_report_too(ktui: Ktui, tmp_path: Path) -> None:
    output = tmp_path / "still.html"

    done = ktui("--cluster", "still:one", "-o", str(output))

    assert done.exit_code == 0, done.output
    text = output.read_text(encoding="utf-8")
    assert "<h1>Cluster still:one</h1>" in text
    assert text.count("No partition has moved.") >= 2


def test_a_report_is_written_to_the_requested_file(ktui: Ktui, tmp_path: Path) -> None:
    output = tmp_path / "drain.html"

    done = ktui("--run", "drain-4", "-o", str(output))

    assert done.exit_code == 0, done.output
    assert re.fullmatch(rf"{output}: 24 moves, [\d.]+ MiB\n", done.stdout)
    assert "<h1>Run drain-4</h1>" in output.read_text(encoding="utf-8")


def test_a_report_is_written_through_a_link_to_a_device_and_leaves_it(
    ktui: Ktui, tmp_path: Path
) -> None:
    (tmp_path / "out").symlink_to(os.devnull)

    done = ktui("--run", "drain-4", "-o", str(tmp_path / "out"))

    assert done.exit_code == 0, done.output
    assert (tmp_path / "out").readlink() == Path(os.devnull)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the report needs a subject: --run or --cluster. Runs: drain-4."),
        (("--run", "x"), "no run x in the lake. Runs: drain-4."),
        (("--run", "drain-4", "--cluster", "still:one"), "no run drain-4 in the lake. Runs: none."),
        (("--cluster", "x"), "no cluster x in the lake. Clusters: cluster-one, still:one."),
    ],
)
def test_a_missing_subject_is_reported_with_those_in_the_lake(
    ktui: Ktui, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = ktui(*words, "-o", str(tmp_path / "report.html"))

    assert done.exit_code == 1
    assert said in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_run_with_an_ambiguous_name_is_chosen_by_its_id(
    tmp_path: Path, facts: ReportFacts
) -> None:
    run = facts.runs[0]
    other = msgspec.structs.replace(run, run_id="drain-4@later")
    rows = {"runs": [msgspec.to_builtins(run), msgspec.to_builtins(other)]}
    opened = ArrowLake.open(str(write_lake(tmp_path / "lake", rows)))

    with pytest.raises(
        PipelineProblem, match=r"2 runs are called drain-4\. Use an id: drain-4@2026"
    ):
        choose_subject(opened, "drain-4", None)
    assert choose_subject(opened, "drain-4@later", None) == Subject("cluster-one", other)


def test_a_missing_lake_is_reported_with_the_command_that_creates_one(tmp_path: Path) -> None:
    with pytest.raises(PipelineProblem, match=r"no lake. Make one .*: ktui pipeline run --lake "):
        ArrowLake.open(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"schema_version":99}', b'{"schema_version":"a"}']
)
def test_an_unreadable_lake_is_reported_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / manifests.NAME).write_bytes(content)

    with pytest.raises(PipelineProblem, match=f"^{tmp_path}/.*: the lake cannot be read: "):
        ArrowLake.open(str(tmp_path))


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and nothing else PAR1"])
def test_missing_or_damaged_tables_are_reported_in_one_line(
    tmp_path: Path, facts: ReportFacts, content: bytes | None
) -> None:
    lake = write_lake(tmp_path / "lake", rows_of(facts))
    for file in (lake / "runs").rglob("*.parquet"):
        file.unlink() if content is None else file.write_bytes(content)

    done = CliRunner().invoke(pipeline, ["report", "--lake", str(lake), "--run", "drain-4"])

    assert done.exit_code == 1
    assert done.stderr.startswith(f"ktui: {lake}: its tables cannot be read: ")
    assert done.stderr.endswith(f". Make the lake again: ktui pipeline run --lake {lake}\n")
    assert done.stderr.count("\n") == 1


def test_columns_that_an_older_ktui_did_not_write_are_null_and_hide_no_others(
    tmp_path: Path, facts: ReportFacts
) -> None:
    run = rows_of(facts)["runs"][0]
    lake = write_lake(tmp_path / "lake", {"runs": [run | {"cluster_id": "an-old-one"}, run]})
    manifest = manifests.decode((lake / manifests.NAME).read_bytes())
    (new,) = manifest.tables["runs"].pop("cluster-one").files
    (old,) = manifest.tables["runs"]["an-old-one"].files
    without = parquet.read_table(lake / old.path, partitioning=None).drop_columns(["objective"])
    parquet.write_table(without, lake / old.path)
    later = new.path.replace("=000001", "=000002")
    (lake / later).parent.mkdir(parents=True)
    (lake / new.path).rename(lake / later)
    file = DataFile(later, new.length)
    manifest.tables["runs"]["cluster-one"] = TablePart((file,), 1)
    (lake / manifests.NAME).write_bytes(manifests.encode(manifest))

    found = records(ArrowLake.open(str(lake)), "runs", RunRecord, pc.scalar(value=True))

    assert {one.cluster_id: one.objective for one in found} == {
        "an-old-one": None,
        "cluster-one": "p99<150ms",
    }


def test_a_lake_may_be_named_by_a_uri(lake: Path) -> None:
    assert ArrowLake.open(lake.as_uri()).manifest == ArrowLake.open(str(lake)).manifest


def test_a_report_names_its_segments_and_their_lost_lines(lake: Path) -> None:
    opened = ArrowLake.open(str(lake))
    of_run, of_cluster = (
        choose_subject(opened, "drain-4", None),
        choose_subject(opened, None, "cluster-one"),
    )

    run = trace_provenance(opened, str(lake), of_run, load_facts(opened, of_run))
    cluster = trace_provenance(opened, str(lake), of_cluster, load_facts(opened, of_cluster))

    assert [segment.sha256 for segment in run.segments] == [CHECKSUM]
    lost = UnusableLine("a.gz", 7, "no", SEGMENT)
    assert run.lost == (lost,)
    assert [segment.sha256 for segment in cluster.segments] == [CHECKSUM]
    assert cluster.lost == (lost, UnusableLine("b.gz", 8, "no", "else"))


def test_the_foot_of_the_page_lists_lost_lines(facts: ReportFacts) -> None:
    whole = page(facts, a_provenance())
    holed = page(facts, a_provenance(*[UnusableLine("a<b>.gz", 7, "not JSON")] * 60))

    assert "Every line of the segments could be used." in whole
    assert "60 recorded lines could not be used" in holed
    assert holed.count("<li>a&lt;b&gt;.gz, line 7: not JSON</li>") == 50
    assert "And 10 more, in the table quarantine of the lake." in holed


class _Tags(HTMLParser):
    """Collects what a page loads and runs."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.runs = 0
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.tags.add(tag)
        self.loads += [value for name in ("src", "href") if (value := of.get(name))]
        self.runs += tag == "script" and "type" not in of
        assert not [name for name in of if name.startswith("on")]


def test_the_page_is_one_file_and_names_are_only_text(facts: ReportFacts) -> None:
    hostile = a_run(8, topic="</script><script>alert(1)</script><img src=//x onerror=alert(1)>")
    tags = _Tags()

    tags.feed(page(hostile, a_provenance()))

    assert [each for each in tags.loads if not each.startswith(("#", "data:"))] == []
    assert tags.runs == 1
    assert "img" not in tags.tags
    plain = _Tags()
    plain.feed(page(facts, a_provenance()))
    assert tags.tags == plain.tags


def test_no_drawn_text_closes_its_script_element(facts: ReportFacts) -> None:
    figure = FIGURES[0](facts)
    assert isinstance(figure, Figure)
    hostile = msgspec.structs.replace(figure, traces=[{"name": "</script><!--"}])

    text = figures_json([hostile])

    assert "<" not in text
    assert json.loads(text)[figure.id]["data"] == hostile.traces


def test_the_page_forbids_network_access_and_foreign_scripts(facts: ReportFacts) -> None:
    text = page(facts, a_provenance())

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "http" not in policy[1]
    assert "unsafe-eval" not in policy[1]


_Colour = tuple[float, ...]


def _parts(colour: str) -> _Colour:
    """Return red, green, blue and how opaque it is, each up to 1."""
    digits = f"{colour[1:]}ff"[:8]
    return tuple(int(digits[place : place + 2], 16) / 255 for place in range(0, 8, 2))


def _under(shade: str, below: _Colour) -> _Colour:
    *parts, opaque = _parts(shade)
    return tuple(opaque * a + (1 - opaque) * b for a, b in zip(parts, below, strict=False))


def _luminance(colour: _Colour) -> float:
    red, green, blue = (
        p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in colour[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: _Colour, other: _Colour) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _colours(scheme: str) -> dict[str, str]:
    style = files("ktui.pipeline.report").joinpath("page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root[^ ]* \{(.*?)\}", style, re.DOTALL)
    block = blocks[("light", "dark").index(scheme)]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6,8});", block))


_TEXTS = {"ink", "dim", "link"}
_SHADES = {"range", "gap", "pause"}
_BEHIND = {"paper", "panel", "rule", "ended"}
"""The grounds, the grid, and an outlined area."""


def _too_pale(least: dict[str, float]) -> set[str]:
    """Return the colours whose contrast is below what WCAG AA asks for."""
    return {name for name, contrast in least.items() if contrast < (4.5 if name in _TEXTS else 3)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shade", ["#00000000", "pause"])
def test_texts_lines_and_marks_have_the_contrast_that_wcag_asks_for_also_in_a_pause(
    scheme: str, shade: str
) -> None:
    colours = _colours(scheme)
    over = colours.get(shade, shade)
    grounds = [_under(over, _parts(colours[name])) for name in ("paper", "panel")]
    seen = {
        name: _under(over, _parts(colours[name])) for name in colours.keys() - _SHADES - _BEHIND
    }

    least = {name: min(_contrast(c, ground) for ground in grounds) for name, c in seen.items()}

    assert _too_pale(least) == set()
    assert len(least) > 15


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_signs_and_labels_have_the_contrast_that_wcag_asks_for_on_a_gap_too(scheme: str) -> None:
    colours = _colours(scheme)
    plain = [_parts(colours[name]) for name in ("paper", "panel")]
    paused = [_under(colours["pause"], each) for each in plain]
    grounds = [_under(colours["gap"], each) for each in (*plain, *paused)]
    signs = {colour.removeprefix("var(--").removesuffix(")") for _, colour in MARKS.values()}

    least = {
        name: min(_contrast(_parts(colours[name]), ground) for ground in grounds)
        for name in {"ink", *signs}
    }

    assert _too_pale(least) == set()
    assert len(least) == 1 + len(MARKS)


def test_an_option_is_not_broken_at_its_hyphens(facts: ReportFacts) -> None:
    text = page(facts, a_provenance())

    assert 'and 4m by <span class="whole">--by</span>.' in text
    assert ".whole { white-space: nowrap; }" in text


def test_every_figure_is_available_as_a_table_without_javascript(facts: ReportFacts) -> None:
    text = page(facts, a_provenance())

    assert text.count("<details>\n<summary>The same as a table") == len(FIGURES)
    assert "<noscript>" in text
    assert "<td>orders-7</td><td>stalled</td><td>2026-05-04 13:03:40</td><td>2m</td>" in text


def test_the_table_of_moves_tells_no_stall_from_a_move_that_no_poll_saw(
    facts: ReportFacts,
) -> None:
    seen, unseen = facts.moves[:2]
    assert (seen.stalls, seen.stalled_ms) == (0, 0)
    unseen = msgspec.structs.replace(unseen, stalls=None, stalled_ms=None)

    rows = moves_rows(msgspec.structs.replace(facts, moves=(seen, unseen)))

    place = [column.name for column in COLUMNS].index("stalls")
    shown = sorted([cell.shown for cell in row[place : place + 2]] for row in rows)
    assert shown == [["0", "0 s"], ["not seen", "not seen"]]


def test_a_report_needs_no_java_and_reads_only_the_requested_rows(
    lake: Path, tmp_path: Path
) -> None:
    opened = ArrowLake.open(str(lake))
    found = records(opened, "samples", InFlightCounts, pc.scalar(value=False))
    assert found == []
    words = ["report", "--lake", str(lake), "--run", "drain-4", "-o", str(tmp_path / "r.html")]
    code = (
        "import sys; from click.testing import CliRunner;"
        "from ktui.cli.pipeline.group import command;"
        f"done = CliRunner().invoke(command, {words!r}); assert done.exit_code == 0, done.output;"
        "print(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
