"""The known differences between Apache's tool and `ktui reassign`: each wanted, and each named.

An answer of ktui that differs in any other way is a defect of ktui.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ktui.cli.reassign.options import OPTIONS
from ktui.cluster.text import clean
from support.reassign_tool.answer import Answer
from support.reassign_tool.normalise import HELP

OWN_WORDS = "<own words>"
"""Stands for any text, within a line, in an expected answer."""
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
    instead: Callable[[Answer], Answer]
    """Turns Apache's answer into that of ktui."""


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


def reaches_the_action(recorded: Answer) -> bool:
    """Return whether Apache's tool found no fault in the options, and began its action."""
    return bool(recorded.stdout) and not _is_version(recorded)


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


def _with_sorted_partitions(answer: Answer) -> Answer:
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
        _with_sorted_partitions,
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
