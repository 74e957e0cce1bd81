"""Read a lake through Arrow, without Java and Spark: rows, subjects, and what happened as marks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs
from pyarrow.dataset import Dataset

from ktui import __version__
from ktui.cluster.text import clean, marked
from ktui.execution.run import events
from ktui.execution.run.parts import Pauses
from ktui.execution.run.text import event_sentence
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import Manifest, PipelineProblem, SegmentRead, check_files
from ktui.pipeline.lake.records import (
    BROKER,
    LIMITS,
    OTHER,
    PAUSE,
    THROTTLE,
    Mark,
    Partition,
    PollRecord,
    ReportFacts,
    RunRecord,
    Span,
    unread,
    usual_ms,
)
from ktui.recording.segments import open_recording_file

R = TypeVar("R", bound=msgspec.Struct)


class Tables(Protocol):
    """One whole version of a lake."""

    def dataset(self, table: str) -> Dataset | None: ...


def records(tables: Tables, table: str, kind: type[R], where: pc.Expression) -> list[R]:
    """Read rows of a table as records; only the columns that the record has are read."""
    files = tables.dataset(table)
    if files is None:
        return []
    rows = list[kind]  # type: ignore[valid-type]  # known when run
    batches = files.to_batches(columns=columns_of(files, kind), filter=where)
    return [row for batch in batches for row in msgspec.convert(_plain(batch), rows)]


def columns_of(files: Dataset, kind: type[msgspec.Struct]) -> list[str]:
    """Return the columns that a record has, of those that a table's files have."""
    named = {field.encode_name for field in msgspec.structs.fields(kind)}
    return [name for name in files.schema.names if name in named]


def values(tables: Tables, table: str, column: str, where: pc.Expression) -> set[str]:
    """Return the distinct values of a column, in some rows of a table."""
    files = tables.dataset(table)
    if files is None:
        return set()
    return set(pc.unique(files.to_table(columns=[column], filter=where)[column]).to_pylist())


def counts_by_poll(
    tables: Tables, where: pc.Expression, of: Iterable[Partition] | None
) -> list[tuple[int, int, int]]:
    """Count partitions being reassigned and replicas being added: (t in ms, both) of each poll."""
    files = tables.dataset("samples")
    if files is None:
        return []
    columns = ["t", "topic", "partition", "adding", "removing"]
    sources = {"samples": files.scanner(columns=columns, filter=where).to_reader()}
    if of is not None:
        names = sorted({(each.topic, each.partition) for each in of})
        topics, numbers = [topic for topic, _ in names], [number for _, number in names]
        sources["ours"] = pa.table(
            {"topic": pa.array(topics, pa.string()), "partition": pa.array(numbers, pa.int32())}
        )
    ours = "true" if of is None else "(topic, partition) IN (FROM ours)"
    found = queried(sources, _BY_POLL.format(ours=ours))
    return [(each["t"], each["partitions"], each["replicas"]) for each in found]


_BY_POLL = """
SELECT t, count_if(ours AND len(adding) + len(removing) > 0)::BIGINT AS partitions,
  sum(CASE WHEN ours THEN len(adding) ELSE 0 END)::BIGINT AS replicas
FROM (SELECT *, {ours} AS ours FROM samples) AS seen
GROUP BY t ORDER BY t
"""


def queried(
    sources: Mapping[str, pa.Table | pa.RecordBatchReader], sql: str, of: object = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a query of DuckDB on Arrow's data; `of` are its named parameters."""
    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        connection.execute("SET temp_directory = $place", {"place": tempfile.gettempdir()})
        for name, source in sources.items():
            connection.register(name, source)
        for batch in connection.sql(sql, params=of).to_arrow_reader(_AT_ONCE):
            yield from batch.to_pylist()


_AT_ONCE = 10_000  # the most rows that are Python objects at one time


def _plain(batch: pa.RecordBatch) -> Sequence[dict[str, Any]]:
    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            ms = pc.cast(batch.column(place), pa.timestamp("ms", tz=field.type.tz), safe=False)
            batch = batch.set_column(place, field.name, pc.cast(ms, pa.int64()))
    rows: Sequence[dict[str, Any]] = batch.to_pylist()
    return rows


_BY = dataset.HivePartitioning(pa.schema([("cluster_id", pa.string()), ("date", pa.date32())]))


class ArrowLake:
    """One whole version of a lake; later versions do not change it."""

    def __init__(self, files: fs.FileSystem, manifest: Manifest) -> None:
        self.manifest = manifest
        self._files = files

    @classmethod
    def open(cls, place: str) -> ArrowLake:
        try:
            files, path = fs.FileSystem.from_uri(place) if "://" in place else _local(place)
            folder = fs.SubTreeFileSystem(path, files)
            if isinstance(files, fs.LocalFileSystem):
                with open_recording_file(Path(path) / manifests.NAME) as local:
                    found = manifests.decode(local.read())
                check_files(Path(path), found)
                return cls(folder, found)
            with folder.open_input_file(manifests.NAME) as file:
                return cls(folder, manifests.decode(file.read()))
        except FileNotFoundError:
            raise PipelineProblem(manifests.missing_lake(place)) from None
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise PipelineProblem(manifests.unreadable_manifest(place, error)) from None
        except FileProblem as problem:
            raise PipelineProblem(str(problem)) from None
        except (OSError, pa.ArrowException) as error:
            raise PipelineProblem(f"{place}: the lake cannot be read: {error}") from None

    def dataset(self, table: str) -> dataset.Dataset | None:
        parts = self.manifest.tables.get(table, {}).values()
        paths = [file.path for part in parts for file in part.files]
        if not paths:
            return None
        paths.sort(reverse=True)  # the newest first: Arrow takes the columns of the first file
        return dataset.dataset(paths, filesystem=self._files, format="parquet", partitioning=_BY)


def _local(place: str) -> tuple[fs.FileSystem, str]:
    try:
        return fs.LocalFileSystem(), str(expand_home(place).absolute())
    except Unreadable as why:
        raise PipelineProblem(f"{place}: {why}") from None


@contextmanager
def damage_as_problem(place: str) -> Iterator[None]:
    """Turn errors of reading tables within the block into a one-line PipelineProblem."""
    try:
        yield
    except (OSError, pa.ArrowException, msgspec.MsgspecError, duckdb.Error) as error:
        fix = f"Make the lake again: ktui pipeline run --lake {place}"
        raise PipelineProblem(f"{place}: its tables cannot be read: {error}. {fix}") from None


_MOST_NAMED = 10


class Subject(msgspec.Struct, frozen=True):
    """Selects the rows of the lake that concern the report."""

    cluster_id: str
    run: RunRecord | None = None  # None for the whole cluster

    def where(self, *, of_run: bool = True) -> pc.Expression:
        """Return the filter for the cluster's rows; for the run's if there is one and `of_run`."""
        cluster = pc.field("cluster_id") == self.cluster_id
        if self.run is None or not of_run:
            return cluster
        return cluster & (pc.field("run_id") == self.run.run_id)


def choose_subject(tables: Tables, run: str | None, cluster: str | None) -> Subject:
    """Find the run, by name or id, or the cluster; PipelineProblem names the choices."""
    runs = records(tables, "runs", RunRecord, pc.scalar(value=True))
    if run is not None:
        return _named_run([one for one in runs if cluster in (None, one.cluster_id)], run)
    clusters = sorted(values(tables, "polls", "cluster_id", pc.scalar(value=True)))
    if cluster is None:
        if len(clusters) == 1 and not runs:
            return Subject(clusters[0])
        raise PipelineProblem(
            "the report needs a subject: --run or --cluster. "
            f"{_choices('Runs', _names(runs))} {_choices('Clusters', clusters)}"
        )
    if cluster not in clusters:
        raise PipelineProblem(f"no cluster {cluster} in the lake. {_choices('Clusters', clusters)}")
    return Subject(cluster)


def _named_run(runs: list[RunRecord], name: str) -> Subject:
    found = [one for one in runs if name == one.run_id] or [one for one in runs if name == one.run]
    if not found:
        raise PipelineProblem(f"no run {name} in the lake. {_choices('Runs', _names(runs))}")
    if len(found) > 1:
        ids = _choices("Use an id", [marked(one.run_id, one.cluster_id) for one in found])
        raise PipelineProblem(f"{len(found)} runs are called {name}. {ids}")
    return Subject(found[0].cluster_id, found[0])


def _names(runs: list[RunRecord]) -> list[str]:
    return sorted({one.run for one in runs})


def _choices(what: str, names: list[str]) -> str:
    if not names:
        return f"{what}: none."
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}: {', '.join(names[:_MOST_NAMED])}{more}."


class UnusableLine(msgspec.Struct, frozen=True):
    """A line of a recording that could not be used."""

    file: str
    line: int | None
    reason: str
    segment: str = ""  # the first digits of its file's checksum


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page's footer."""

    made_at: datetime
    version: str
    lake: str
    segments: tuple[SegmentRead, ...]
    lost: tuple[UnusableLine, ...]


_DIGITS = 16


def trace_provenance(
    lake: ArrowLake, place: str, subject: Subject, facts: ReportFacts
) -> Provenance:
    """Find the sources of a report on a lake, whose place is as the user named it."""
    used = _segments(lake, subject, facts)
    cluster = pc.field("cluster_id")
    concerned = (cluster == subject.cluster_id) | (cluster == "")
    bad = records(lake, "quarantine", UnusableLine, concerned)
    return Provenance(
        made_at=datetime.now(UTC),
        version=__version__,
        lake=place,
        segments=tuple(each for each in lake.manifest.segments if each.sha256[:_DIGITS] in used),
        lost=tuple(line for line in bad if subject.run is None or line.segment in used),
    )


def _segments(lake: ArrowLake, subject: Subject, facts: ReportFacts) -> set[str]:
    cluster = subject.where(of_run=False)
    if subject.run is None:
        return values(lake, "lines", "segment", cluster)
    began, ended = facts.span
    t = pc.field("t")
    sampled = values(lake, "samples", "segment", cluster & (t >= began) & (t <= ended))
    return sampled | values(lake, "lines", "segment", subject.where())


_KINDS: dict[type[events.RunEvent], str] = {
    events.Paused: PAUSE,
    events.Continued: PAUSE,
    events.LimitsChanged: LIMITS,
    events.ThrottleChanged: THROTTLE,
    events.SettingChanged: THROTTLE,
    events.CancelAsked: OTHER,
    events.Added: OTHER,
    events.Noted: OTHER,
    events.EngineLeft: OTHER,
    events.Outage: OTHER,
}
_EVENTS: tuple[type[events.RunEvent], ...] = (*_KINDS, events.Started)
NEEDED = sorted(str(kind.__struct_config__.tag) for kind in _EVENTS)
"""The values of `kind` in `run_events` that marks and limits are made from."""


class RunEventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `run_events`."""

    t: int
    event: str
    run: str = ""
    run_id: str = ""
    entry: int = 0


Happened = tuple[RunEventRecord, events.AnyRunEvent]


def decoded(rows: Iterable[RunEventRecord]) -> list[Happened]:
    """Decode the events of rows, in order; those of a newer ktui are left out."""
    found = []
    for row in sorted(rows, key=lambda one: (one.run_id, one.t, one.entry)):
        try:
            found.append((row, events.decode(row.event.encode())))
        except msgspec.DecodeError:
            continue
    return found


def run_marks(happened: Sequence[Happened], end: int, *, named: bool) -> list[Mark]:
    """Return what happened to one run; a pause of the whole run lasts until it is lifted."""
    marks: list[Mark] = []
    pauses, began = Pauses(), 0
    for row, event in happened:
        was_paused = bool(pauses.whole)
        if isinstance(event, events.Paused | events.Continued):
            pauses.apply(event)
        if type(event) in _KINDS:
            says = event_sentence(event)
            marks.append(
                Mark(row.t, _KINDS[type(event)], f"{clean(row.run)}: {says}" if named else says)
            )
        if pauses.whole and not was_paused:
            began = len(marks) - 1
        elif was_paused and not pauses.whole:
            marks[began] = msgspec.structs.replace(marks[began], until=row.t)
    if pauses.whole:
        marks[began] = msgspec.structs.replace(marks[began], until=end)
    return marks


def recording_gaps(times: Sequence[int], span: Span) -> list[Span]:
    """Return the times within a span, in ms, that no poll shows; the whole span without any."""
    began, ended = span
    within = [t for t in times if began <= t <= ended]
    if not within:
        return [span] if began < ended else []
    return unread([began, *within, ended], usual_ms([within]))


def broker_marks(polls: Sequence[PollRecord], end: int) -> list[Mark]:
    """Return the times in which brokers were not alive, up to `end`, and when each came back."""
    marks: list[Mark] = []
    down: dict[int, tuple[int, str]] = {}
    alive: frozenset[int] = frozenset()
    for place, poll in enumerate(polls):
        now = frozenset(poll.alive)
        if now == alive and place:
            continue
        was = alive if place else frozenset(poll.brokers)
        when = "went down" if place else "was down when the recording began"
        down |= dict.fromkeys(was - now, (poll.t, when))
        marks += _returned(down, now, poll.t)
        alive = now
    marks += [_down(broker, *since, end) for broker, since in sorted(down.items())]
    return sorted(marks, key=lambda mark: (mark.t, mark.says))


def _returned(down: dict[int, tuple[int, str]], alive: Iterable[int], t: int) -> Iterable[Mark]:
    for broker in sorted(set(alive) & down.keys()):
        yield _down(broker, *down.pop(broker), t)
        yield Mark(t, BROKER, f"broker {broker} was back")


def _down(broker: int, since: int, how: str, until: int) -> Mark:
    return Mark(since, BROKER, f"broker {broker} {how}", until)


_LEAST_MS = 3_600_000
_LEAST_SHARE = 0.1
_EDGE_SHARE = 0.02
"""The share of the time with movement that is kept on both sides of what is left out."""


def idle_spans(active: Iterable[Span], span: Span) -> list[Span]:
    """Return long idle times of a span, in ms: over an hour and a tenth, but for their edges."""
    began, ended = span
    least = max(_LEAST_MS, int((ended - began) * _LEAST_SHARE))
    found: list[Span] = []
    known = began
    for start, end in [*sorted(active), (ended, ended)]:
        if min(start, ended) - known >= least:
            found.append((known, min(start, ended)))
        known = max(known, min(end, ended))
    busy = ended - began - sum(to - since for since, to in found)
    edge = min(max(1_000, int(busy * _EDGE_SHARE)), least // 4)
    return [(since + edge, to - edge) for since, to in found]
