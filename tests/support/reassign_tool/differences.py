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
        "reassignment-poll-interval-ms",
    }
)
_JSON_SYNTAX = "\n at [Source: REDACTED"
_CONNECTION = re.compile(
    r"Failed to create new KafkaAdminClient"
    r"|Invalid value .* for configuration|Configuration 'bootstrap|No resolvable bootstrap"
)
_OF_A_VALUE = re.compile(r"Cannot parse argument|Found multiple arguments")


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


def _refused(message: str) -> Answer:
    return Answer(1, "", f"ktui: {message}\n{HINT}")


def _refused_by_the_action(answer: Answer) -> Answer:
    return Answer(1, "", f"ktui: {clean(_error(answer))}\n")


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
        "--bootstrap-server without its value is missed by name. Apache's tool prints "
        "'Error: null'.",
        lambda _words, answer: _error(answer) == "null",
        lambda _answer: _refused(f"Option bootstrap-{OWN_WORDS} requires an argument"),
    ),
    Difference(
        "connection errors",
        "Addresses and client properties that cannot be used are refused in ktui's words, as by "
        "all its verbs.",
        lambda _words, answer: bool(_CONNECTION.match(_error(answer))),
        lambda _answer: Answer(1, "", f"ktui: {OWN_WORDS}\n"),
    ),
    Difference(
        "places in JSON",
        "A file that is no JSON is refused with the line and the column, in one line.",
        lambda _words, answer: _JSON_SYNTAX in _error(answer),
        lambda _answer: Answer(1, "", f"ktui: {OWN_WORDS}\n"),
    ),
    Difference(
        "values that are refused",
        "A value that an option cannot have is an error in the options: it goes to standard "
        "error, with the hint.",
        lambda _words, answer: bool(_OF_A_VALUE.match(_error(answer))),
        lambda answer: _refused(clean(_error(answer))),
    ),
    Difference(
        "errors on standard error",
        "An action that fails says so on standard error, in one line, without a Java stack trace. "
        "Control characters are escaped.",
        lambda _words, answer: _failed(answer),
        _refused_by_the_action,
    ),
)
"""The first that applies to an answer tells what ktui answers."""
