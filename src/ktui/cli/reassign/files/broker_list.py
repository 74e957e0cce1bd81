"""The value of --broker-list, read as kafka-reassign-partitions reads it."""

from __future__ import annotations

import re

from ktui.cli.reassign.errors import ReassignProblem
from ktui.cluster.partition import Brokers
from ktui.cluster.text import clean
from ktui.planning.plan import LARGEST

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,10}")


def parse_broker_list(text: str) -> Brokers:
    """Parse broker ids such as `0,1,2`, without blanks; commas at the end are ignored.

    Raises:
        ReassignProblem: an id is not an integer of 32 bits, or is there twice.
    """
    listed = text.rstrip(",")
    if text and not listed:
        return ()
    brokers = tuple(map(_parse_id, listed.split(",")))
    if repeated := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        raise ReassignProblem(f"Broker list contains duplicate entries: {repeated}")
    return brokers


def _parse_id(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -LARGEST - 1 <= int(text) <= LARGEST:
        raise ReassignProblem(f'For input string: "{clean(text)}"')
    return int(text)
