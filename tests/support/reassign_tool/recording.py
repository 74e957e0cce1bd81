"""Answers of the programs, the recorded ones of Apache's tool, and what is taken out of them."""

import gzip
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ktui.lab.layout import DEFAULT_VERSION
from support.reassign_tool.cases import FILES


class Answer(msgspec.Struct, frozen=True):
    """What a program printed, and its exit code."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


class PartitionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replicas of a partition, and what becomes of them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class ClusterState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool that moves partitions can change on a cluster."""

    partitions: Mapping[str, PartitionState]
    throttles: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """The throttle settings that are set, by `broker 1` or `topic orders`, and by key."""


_RECORDED = Path(__file__).parent / "recorded"
SCHEMA_VERSION = 1


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a step: the program's answer, and the cluster after it."""

    answer: Answer | None = None
    state: ClusterState | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that was recorded."""

    schema_version: int = SCHEMA_VERSION
    jar: str  # the file name of the jar that holds the tool, with its version
    help: str  # the help text, which the answers have as a sign


class RecordedList(msgspec.Struct, frozen=True, tag="list"):
    """The answer to an argument list."""

    words: tuple[str, ...]
    answer: Answer
    state: ClusterState | None = None

    @property
    def name(self) -> str:
        """The words as a shell has them."""
        return shlex.join(self.words)


class RecordedFlow(msgspec.Struct, frozen=True, tag="flow"):
    """The outcome of each step of a flow."""

    name: str
    outcomes: tuple[Outcome, ...]


class Recording(msgspec.Struct, frozen=True):
    """All that was recorded of one version."""

    header: Header
    lists: tuple[RecordedList, ...]
    flows: tuple[RecordedFlow, ...]


def file_of(version: str) -> Path:
    return _RECORDED / f"kafka-{version}.jsonl.gz"


def save(recording: Recording, path: Path) -> None:
    """Write a recording, the same bytes for the same content."""
    rows = (recording.header, *recording.lists, *recording.flows)
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    path.write_bytes(gzip.compress(lines, mtime=0))


def load(version: str = DEFAULT_VERSION) -> Recording:
    first, *rest = gzip.decompress(file_of(version).read_bytes()).splitlines()
    rows = [msgspec.json.decode(row, type=RecordedList | RecordedFlow) for row in rest]
    return Recording(
        msgspec.json.decode(first, type=Header),
        tuple(row for row in rows if isinstance(row, RecordedList)),
        tuple(row for row in rows if isinstance(row, RecordedFlow)),
    )


def write_files(folder: Path) -> Path:
    """Write the files that the argument lists name into a new folder, and return it."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


HELP = "<help>"
_TRACES = tuple(
    re.compile(pattern, re.DOTALL | re.MULTILINE)
    for pattern in (
        r"^(Error: (?P<message>.*?))\n[\w.$]+: (?P=message)\n.*\Z",
        r"^(Error: null)\n[\w.$]+\n\tat .*\Z",
        r'^(Exception in thread "main" .*?)\n\tat .*\Z',
    )
)
"""A stack trace behind the message, which it repeats; some have no lines with places."""
_PROPOSED = "Proposed partition reassignment configuration\n"
_REPLICAS = re.compile(r'"replicas":\[([\d,]+)\]')


class Normalisation(msgspec.Struct, frozen=True):
    """One thing that is taken out, for one reason."""

    name: str
    why: str
    apply: Callable[[str, Mapping[str, str]], str]
    """Takes a text, and the places of the run by what stands for them."""


def _without_ports(text: str, _places: Mapping[str, str]) -> str:
    return re.sub(r"\b(127\.0\.0\.1|localhost)(/127\.0\.0\.1)?:\d+", r"\1:PORT", text)


def _without_asked_broker(text: str, _places: Mapping[str, str]) -> str:
    return re.sub(r"\bbroker \d+ at (?=127\.0\.0\.1:)", "broker ANY at ", text)


def _without_places(text: str, places: Mapping[str, str]) -> str:
    for sign, place in places.items():
        text = text.replace(place, sign)
    return text


def _without_times(text: str, _places: Mapping[str, str]) -> str:
    text = re.sub(r"(\w*(?:deadline|Try)Ms=)-?\d+", r"\1TIME", text)
    return re.sub(r"\b(timed out at )\d{10,}", r"\1TIME", text)


def _without_request(text: str, _places: Mapping[str, str]) -> str:
    return re.sub(r"\bRequest\(processor=.*?\)(?= needs | is not authorized)", "<request>", text)


def _without_trace(text: str, _places: Mapping[str, str]) -> str:
    for trace in _TRACES:
        text = trace.sub(r"\1\n", text)
    return text


def _without_help(text: str, places: Mapping[str, str]) -> str:
    return text.replace(places[HELP], HELP) if HELP in places else text


def _without_draw(text: str, _places: Mapping[str, str]) -> str:
    before, heading, proposal = text.partition(_PROPOSED)
    return before + heading + _REPLICAS.sub(_anonymous, proposal)


def _anonymous(found: re.Match[str]) -> str:
    drawn = ",".join("N" for _ in found[1].split(","))
    return f'"replicas":[{drawn}]'


NORMALISATIONS = (
    Normalisation("help", "The whole help text, which each program has of its own.", _without_help),
    Normalisation(
        "stack trace",
        "The stack trace of an error, behind the line of the message.",
        _without_trace,
    ),
    Normalisation(
        "request",
        "The broker's own description of a request that it denies: objects and their addresses.",
        _without_request,
    ),
    Normalisation("port", "Port numbers: each lab has free ones.", _without_ports),
    Normalisation("asked", "The broker that a client happened to ask.", _without_asked_broker),
    Normalisation("place", "The folder of the lab, which holds the log dirs.", _without_places),
    Normalisation("time", "Points in time in messages of timeouts.", _without_times),
    Normalisation(
        "draw",
        "The brokers in the proposal of --generate, which is drawn at random. Topics, partitions, "
        "the number of replicas and the log dirs remain.",
        _without_draw,
    ),
)
"""In the order in which they are applied."""


def normalised(answer: Answer, places: Mapping[str, str]) -> Answer:
    """Return an answer without what differs from run to run.

    Args:
        answer: the answer of one of the programs.
        places: folders of the run, by what stands for them; and by HELP, the program's help.
    """
    return Answer(
        answer.exit_code,
        _normalised_text(answer.stdout, places),
        _normalised_text(answer.stderr, places),
    )


def _normalised_text(text: str, places: Mapping[str, str]) -> str:
    for each in NORMALISATIONS:
        text = each.apply(text, places)
    return text
