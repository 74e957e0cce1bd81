"""A separate process that reads a topic at its tail, as a group of one, and times each record.

`python -m bench.consuming BOOTSTRAP TOPIC` reads until its standard input ends. Then it prints one
JSON array: [time of arrival, seconds since the record was sent] of each record, in the seconds of
`time.monotonic`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer

from bench.producing import set_when_input_ends

Read = Sequence[tuple[float, float]]
"""Each record's time of arrival, and the seconds since it was sent."""
_TURN_S = 0.05


@contextmanager
def consumer(bootstrap: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """Run a consumer; it ends with its standard input."""
    argv = [sys.executable, "-m", "bench.consuming", bootstrap, topic]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def main() -> None:
    """Read until standard input ends, and print the delays."""
    bootstrap, topic = sys.argv[1:]
    print(json.dumps(_read(bootstrap, topic, set_when_input_ends())))


def _read(bootstrap: str, topic: str, stop: threading.Event) -> list[tuple[float, float]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "latest"}
    )
    consumer.subscribe([topic])
    read: list[tuple[float, float]] = []
    while not stop.is_set():
        message = consumer.poll(_TURN_S)
        if message is None:
            continue
        if (error := message.error()) is not None:
            raise SystemExit(f"not read: {error}")
        _, sent_ms = message.timestamp()
        read.append((time.monotonic(), time.time() - sent_ms / 1000))
    consumer.close()
    return read


if __name__ == "__main__":
    main()
