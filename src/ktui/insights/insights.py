"""What recordings show of clusters: the records of the insights file, its reading and writing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from ktui.durable import make_folder, write_whole
from ktui.inputfile import FileProblem, Unreadable, read_input
from ktui.insights.prior import NonNegativeInt, Prior, Spread
from ktui.json_text import checked_moment

SCHEMA_VERSION = 1


class PairRate(msgspec.Struct, frozen=True):
    """The rate at which one replica was copied from one broker to another."""

    leader: int
    """The broker that led the partition during the copy."""
    adding: int
    bytes_s: Spread


class SizeRate(msgspec.Struct, frozen=True):
    """The rate at which one replica was copied, for partitions of some size."""

    from_bytes: NonNegativeInt
    below_bytes: NonNegativeInt | None
    """None for the largest sizes."""
    bytes_s: Spread


class StallCause(msgspec.Struct, frozen=True):
    """A cause of stalled replicas, with counts."""

    cause: str
    """The cause, in the words of the live view."""
    count: NonNegativeInt
    seconds: float


class EtaError(msgspec.Struct, frozen=True):
    """The error of forecasts: the median of |forecast - truth| / truth."""

    scope: str
    """`run` or `partition`."""
    decile: NonNegativeInt
    """Progress of the copying: 0 is less than a tenth, 5 is five to six tenths."""
    moments: NonNegativeInt
    ktui: float | None
    """Error of the time left that the live view shows."""
    linear: float | None
    """Error of the time passed, times the bytes left by the bytes done."""
    recent: float | None
    """Error of the bytes left by the rate of the last ten seconds."""
    told: float
    """The share of moments in which the live view showed a time at all."""


class RunAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Recommended limits for a run of this size, from a simulation of a recorded run."""

    run: str
    run_id: str
    partitions: NonNegativeInt
    bytes: NonNegativeInt
    limits: dict[str, str | NonNegativeInt | None]
    """Values by option of `ktui start`, without dashes; null lifts a limit."""
    throttle: str
    """The value for `--throttle`; `none` for no throttle."""
    predicted_s: float
    low_s: float
    high_s: float
    actual_s: float | None
    """Duration of the recorded run, under its own limits."""
    driven_by: str | None = None
    """The promises that chose its rates, such as `by`; None for none."""
    held_out_error: float | None
    """(predicted - actual) / actual of that run, predicted from other runs.

    None where no other run can predict it.
    """
    assumed: tuple[str, ...] = ()
    """The figures behind these times that no recording shows."""
    reason: str
    """What is gained over the recorded run, and what it costs."""
    record: str | None = None
    """The options of `ktui start` to record a run with, which may show faster limits; or None."""


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run for which no other limits are recommended."""

    run: str
    run_id: str
    reason: str
    """The recording that would be needed, or a note that nothing fits or would be better."""
    record: str | None = None
    """The options of `ktui start` to record a run with, to know more; None where nothing is known
    that might be better."""


class ClusterInsights(msgspec.Struct, frozen=True, kw_only=True):
    """The insights into one cluster."""

    cluster_id: str
    runs: NonNegativeInt
    moves: NonNegativeInt
    began: datetime | None = None
    """The time at which the first recorded move began."""
    ended: datetime | None = None
    prior: Prior | None = None
    """None while too little was copied for an estimate."""
    pairs: tuple[PairRate, ...] = ()
    sizes: tuple[SizeRate, ...] = ()
    stalls: tuple[StallCause, ...] = ()
    eta: tuple[EtaError, ...] = ()
    advice: tuple[RunAdvice, ...] = ()
    withheld: tuple[Withheld, ...] = ()

    def __post_init__(self) -> None:
        """Refuse times that cannot be shown."""
        for moment in (self.began, self.ended):
            if moment is not None:
                checked_moment(moment)


class Insights(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    made_at: datetime | None = None
    """None if no insights have been made yet."""
    version: str = ""
    """The version of ktui that made the insights."""
    clusters: tuple[ClusterInsights, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        if self.made_at is not None:
            checked_moment(self.made_at)

    def of(self, cluster_id: str) -> ClusterInsights | None:
        return next((each for each in self.clusters if each.cluster_id == cluster_id), None)


NAME = "insights.json"
"""The file's name in a lake, and in a state directory, where the live view finds it."""
_MOST_BYTES = 256 * 1024**2
_FIX = "make a new one: ktui pipeline run"


class _Versioned(msgspec.Struct):
    schema_version: int


def insights_in(folder: Path) -> Insights:
    """Return the insights of a lake or a state directory; empty insights if it has none.

    Raises:
        FileProblem: the file cannot be read; the message includes the fix.
    """
    path = folder / NAME
    return read_insights(path) if path.exists() else Insights()


def read_insights(path: Path) -> Insights:
    """Read insights from a file.

    Raises:
        FileProblem: the file is missing or cannot be read; the message includes the fix.
    """
    try:
        text = read_input(path, _MOST_BYTES)
    except Unreadable as why:
        if not path.exists():
            raise FileProblem(path, None, f"there is no such file; {_FIX}") from None
        raise FileProblem(path, None, f"cannot be read: {why}") from None
    return _decoded(text, path)


def insights_of(folder: Path, cluster_id: str) -> ClusterInsights | None:
    """Return a state directory's insights into a cluster; None if it has none.

    Callers can do without: a file that cannot be read counts as empty.
    """
    try:
        return insights_in(folder).of(cluster_id)
    except FileProblem:
        return None


def encode(insights: Insights) -> bytes:
    """Encode insights as the bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(insights), indent=1) + b"\n"


def publish_insights(insights: Insights, folder: Path) -> None:
    """Write insights where a live view finds them, and keep those of other clusters.

    Raises:
        OSError: the file cannot be written.
    """
    make_folder(folder)
    try:
        before = insights_in(folder).clusters
    except FileProblem:
        before = ()  # an unreadable file is replaced
    new = {each.cluster_id for each in insights.clusters}
    kept = tuple(each for each in before if each.cluster_id not in new)
    whole = msgspec.structs.replace(insights, clusters=(*kept, *insights.clusters))
    write_whole(folder / NAME, encode(whole))


def _decoded(text: bytes, path: Path) -> Insights:
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            problem = f"written by a newer ktui (schema_version {version}); {_FIX}"
            raise FileProblem(path, None, problem)
        return msgspec.json.decode(text, type=Insights)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FileProblem(path, None, f"this is not an insights file: {error}; {_FIX}") from None
