"""The known differences between Apache's tool and `ktui reassign`: each wanted, and each named.

An answer of ktui that differs in any other way is a defect of ktui.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ktui.cli.reassign.options import OPTIONS
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from ktui.cluster.text import clean
from support.reassign_tool.recording import HELP, Answer, ClusterState

OWN_WORDS = "<own words>"  # stands for any text, within a line, in an expected answer
HINT = "Try 'ktui reassign --help' for help.\n"

_INTRODUCTION = "This tool helps to move topic partitions between replicas.\n"
_UNCAUGHT = re.compile(r'Exception in thread "main" joptsimple\.\w+: (?P<message>.*)\n', re.DOTALL)
_UNKNOWN_OPTION = re.compile(r"(?P<option>.*) is not a recognized option", re.DOTALL)
_OWN_OPTIONS = frozenset(
    {
        *("cancel-all", "remove-cancel", "progress", "context", "state-dir", "as-run", "take-over"),
        *("no-ownership", "clear-foreign-throttles", "reassignment-batch-size", "incremental"),
        *("reassignment-poll-interval-ms", "allow-full-log-dirs"),
    }
)
_JSON_SYNTAX = re.compile(
    r".*\n at \[Source: REDACTED"
    r"|Document nesting depth .* exceeds the maximum|Number value length .* exceeds the maximum",
    re.DOTALL,
)
_SETTINGS = re.compile(
    r"Failed to create new KafkaAdminClient|Configuration 'bootstrap"
    r"|Invalid value .* for configuration"
)
_NOTHING_TO_REMOVE = re.compile(
    r"(.*?)Clearing broker-level throttles on .*\n"
    r"Error: org\.apache\.kafka\.common\.errors\."
    r"(?:UnknownTopicOrPartitionException: The topic '|InvalidTopicException: Topic name is invalid"
    r"|TimeoutException: .* Call: incrementalAlterConfigs).*\n",
    re.DOTALL,
)
_INVALID = re.compile(r"org\.apache\.kafka\.common\.errors\.InvalidTopicException: ")
_OF_THE_CLUSTER = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?!UnknownTopicOrPartitionException)\w+: "
)
_OUT_OF_BOUNDS = re.compile(r"Index -?\d+ out of bounds for length \d+")
_REFUSED_DIR = re.compile(r"(Error: Failed to alter dir for \S+)\n")
_SETTINGS_FILE = re.compile(r"Is a directory|\S+\.properties")
_EMPTY_FILE = "The input string shouldn't be empty\n"
_TWICE = "Partition reassignment contains duplicate topic partitions: "


class Difference(msgspec.Struct, frozen=True):
    """One difference, and the answers that have it."""

    name: str
    why: str
    applies: Callable[[Sequence[str], Answer], bool]
    """Whether Apache's answer to these words has it."""
    instead: Callable[[Answer], Answer]  # turns Apache's answer into that of ktui


class Expected(msgspec.Struct, frozen=True):
    """The answer that ktui has to give, and the differences by which it is not Apache's."""

    answer: Answer
    differences: tuple[str, ...] = ()


def expected(words: Sequence[str], recorded: Answer) -> Expected:
    """Return the answer of ktui to words that Apache's tool has answered so."""
    found = [each for each in DIFFERENCES if each.applies(words, recorded)]
    answer = recorded
    for each in found[:1]:
        answer = each.instead(answer)
    return Expected(answer, tuple(each.name for each in found[:1]))


def agrees(answer: Answer, wanted: Answer) -> bool:
    """Return whether an answer is the expected one, line by line."""
    return (
        answer.exit_code == wanted.exit_code
        and _fits(answer.stdout, wanted.stdout)
        and _fits(answer.stderr, wanted.stderr)
    )


def _fits(text: str, wanted: str) -> bool:
    pattern = "[^\n]+".join(map(re.escape, wanted.split(OWN_WORDS)))
    return re.fullmatch(pattern, text) is not None


def _is_version(answer: Answer) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+\n", answer.stdout) is not None


def _uncaught(answer: Answer) -> str:
    found = _UNCAUGHT.fullmatch(answer.stderr)
    return found["message"] if found else ""


def _unknown_option(answer: Answer) -> str:
    found = _UNKNOWN_OPTION.fullmatch(_uncaught(answer))
    return found["option"] if found else ""


def _error(answer: Answer) -> str:
    """Return the message of an action that failed before it printed anything."""
    return answer.stdout.removeprefix("Error: ").removesuffix("\n") if _failed(answer) else ""


def _failed(answer: Answer) -> bool:
    return answer.stdout.startswith("Error: ")


def _refuses_settings(words: Sequence[str], error: str) -> bool:
    without_host = any(word.startswith(":") for word in words)
    about_file = "--command-config" in words and _SETTINGS_FILE.fullmatch(error)
    return bool(error and without_host) or bool(about_file or _SETTINGS.match(error))


def _has_control_characters(error: str) -> bool:
    return clean(error) != error and not error.startswith(_EMPTY_FILE)


def _with_in_order(answer: Answer) -> Answer:
    tps = _error(answer).removeprefix(_TWICE).split(",")
    in_order = sorted(tps, key=lambda tp: (tp.rpartition("-")[0], int(tp.rpartition("-")[2])))
    return Answer(1, f"Error: {_TWICE}{','.join(in_order)}\n")


def _refused(message: str) -> Answer:
    return Answer(1, "", f"ktui: {message}\n{HINT}")


DIFFERENCES = (
    Difference(
        "version",
        "--version prints the version of ktui.",
        lambda _words, answer: _is_version(answer),
        lambda _answer: Answer(0, f"ktui, version {OWN_WORDS}\n"),
    ),
    Difference(
        "help",
        "Who asks for the help has not failed: it goes to standard output, with exit code 0.",
        lambda words, answer: answer.stderr == _INTRODUCTION + HELP and bool(words),
        lambda _answer: Answer(0, f"{HELP}\n"),
    ),
    Difference(
        "help without a word before it",
        "Without arguments the help goes to standard error with exit code 1, as Apache's does; "
        "its first line is the usage.",
        lambda words, answer: answer.stderr == _INTRODUCTION + HELP and not words,
        lambda _answer: Answer(1, "", f"{HELP}\n"),
    ),
    Difference(
        "zookeeper",
        "--zookeeper is refused with the option that replaces it, not as an unknown option.",
        lambda _words, answer: _unknown_option(answer) == "zookeeper",
        lambda _answer: _refused(OPTIONS["zookeeper"].refusal),
    ),
    Difference(
        "options of ktui",
        "ktui has more options. Apache's tool does not know them.",
        lambda _words, answer: _unknown_option(answer) in _OWN_OPTIONS,
        lambda _answer: _refused(OWN_WORDS),
    ),
    Difference(
        "no Java exception",
        "An unknown option or a missing value is an error like others, and no uncaught exception.",
        lambda _words, answer: bool(_uncaught(answer)),
        lambda answer: _refused(clean(_uncaught(answer))),
    ),
    Difference(
        "hint in place of the help",
        "An error in the options is followed by a line that names --help. The whole help, which "
        "Apache's tool prints, would move the error out of sight.",
        lambda _words, answer: answer.stderr.endswith(f"\n{HELP}"),
        lambda answer: _refused(answer.stderr.removesuffix(f"\n{HELP}")),
    ),
    Difference(
        "bootstrap servers left out",
        "--bootstrap-server and --bootstrap-controller without their value are missed by name. "
        "Apache's tool prints 'Error: null'.",
        lambda _words, answer: _error(answer) == "null",
        lambda _answer: Answer(1, f"Error: Option {OWN_WORDS} requires an argument\n"),
    ),
    Difference(
        "client settings",
        "Addresses and client properties that cannot be used are refused on standard error, with "
        "file, line and setting, as by all verbs of ktui.",
        lambda words, answer: _refuses_settings(words, _error(answer)),
        lambda _answer: Answer(1, "", f"{OWN_WORDS}\n"),
    ),
    Difference(
        "nothing to remove",
        "A topic or a broker that does not exist has no throttle, so that its removal cannot fail.",
        lambda _words, answer: bool(_NOTHING_TO_REMOVE.fullmatch(answer.stdout)),
        lambda answer: Answer(0, _NOTHING_TO_REMOVE.sub(r"\1", answer.stdout)),
    ),
    Difference(
        "nothing to cancel",
        "A partition that cannot exist is not being reassigned.",
        lambda words, answer: "--cancel" in words and bool(_INVALID.match(_error(answer))),
        lambda _answer: Answer(
            0,
            "None of the specified partition reassignments are active.\n"
            "None of the specified partition moves are active.",
        ),
    ),
    Difference(
        "cluster errors",
        "Errors of the connection and of the cluster are in ktui's words, with what was attempted, "
        "where, and what to do.",
        lambda _words, answer: bool(_OF_THE_CLUSTER.match(_error(answer))),
        lambda _answer: Answer(1, f"Error: {OWN_WORDS}\n"),
    ),
    Difference(
        "partition numbers",
        "A partition whose number is negative or the next one of its topic is unknown like others. "
        "Apache's tool ends with an index out of bounds.",
        lambda _words, answer: bool(_OUT_OF_BOUNDS.match(_error(answer))),
        lambda _answer: Answer(0, f"Status of partition reassignment:\n{OWN_WORDS}\n\n"),
    ),
    Difference(
        "why a log dir is refused",
        "ktui adds Kafka's error.",
        lambda _words, answer: bool(_REFUSED_DIR.search(answer.stdout)),
        lambda answer: Answer(1, _REFUSED_DIR.sub(rf"\1: {OWN_WORDS}\n", answer.stdout)),
    ),
    Difference(
        "no throttle of 0",
        "--throttle 0 would stop the move for ever: it is refused.",
        lambda words, _answer: "--throttle 0" in " ".join(words) and words[-1] == "0",
        lambda _answer: Answer(1, f"Error: {OWN_WORDS}\n"),
    ),
    Difference(
        "places in JSON",
        "A file that is no JSON is refused with the line and the column, in one line, without the "
        "names of Java's parser and its limits.",
        lambda _words, answer: bool(_JSON_SYNTAX.match(_error(answer))),
        lambda _answer: Answer(1, f"Error: {OWN_WORDS}\n"),
    ),
    Difference(
        "sorted partitions",
        "Partitions that a file has twice are named in order. Apache's tool names them in the "
        "order of a Java hash table.",
        lambda _words, answer: _error(answer).startswith(_TWICE) and "," in _error(answer),
        _with_in_order,
    ),
    Difference(
        "empty path",
        "A path that is empty is the folder `.`, and is named so.",
        lambda _words, answer: _error(answer) == "Unable to read file ",
        lambda _answer: Answer(1, "Error: Unable to read file .\n"),
    ),
    Difference(
        "escaped characters",
        "Control characters in names and values are escaped: they could rewrite the screen.",
        lambda _words, answer: _has_control_characters(_error(answer)),
        lambda answer: Answer(1, f"Error: {clean(_error(answer))}\n"),
    ),
)
"""The first that applies to an answer tells what ktui answers."""


Throttles = Mapping[str, Mapping[str, str]]
Setting = tuple[str, str]  # a throttle setting by its resource, such as `broker 1`, and its key

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
