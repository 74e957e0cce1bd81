"""What is taken out of the answers before they are compared: only what differs from run to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from support.reassign_tool.answer import Answer

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
