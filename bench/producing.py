"""A separate process that writes with acks=all, whatever is late, and times each acknowledgement.

`python -m bench.producing BOOTSTRAP TOPIC PARTITIONS BYTES_S [FACTOR SINCE_S UNTIL_S [SIZE]]`
writes until its standard input ends, and FACTOR times as much from SINCE_S to UNTIL_S after its
start. SIZE is that of a message, in bytes. Then it
prints one JSON array: [time of sending, seconds until acknowledged, partition] of each message, in
the seconds of `time.monotonic`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Producer

MESSAGE_BYTES = 32_768
WARM_UP_S = 3.0
"""Seconds until a producer has reached its rate."""
_TURN_S = 0.005
_LIMIT_S = 120.0


class Load(NamedTuple):
    """What a producer writes: `factor` times its usual rate for a time, in seconds from its start.

    Rates are in bytes a second.
    """

    bytes_s: float
    factor: float = 1.0
    since_s: float = 0.0
    until_s: float = 0.0
    message_bytes: float = MESSAGE_BYTES

    def written(self, at_s: float) -> float:
        """Return the bytes written from the start to a second after it."""
        more_s = max(0.0, min(at_s, self.until_s) - self.since_s)
        return self.bytes_s * (at_s + (self.factor - 1) * more_s)


@contextmanager
def producer(
    bootstrap: str, topic: str, partitions: int, load: Load
) -> Iterator[subprocess.Popen[str]]:
    """Run a producer, which has reached its rate; it ends with its standard input."""
    argv = [sys.executable, "-m", "bench.producing", bootstrap, topic, str(partitions)]
    with subprocess.Popen(
        [*argv, *map(str, load)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        time.sleep(WARM_UP_S)
        yield process


def main() -> None:
    """Write until standard input ends, and print the times."""
    bootstrap, topic, partitions, *load = sys.argv[1:]
    stop = set_when_input_ends()
    timed = _produce(bootstrap, topic, int(partitions), Load(*map(float, load)), stop)
    print(json.dumps(timed))


def set_when_input_ends() -> threading.Event:
    """Return an event that is set once this process's standard input has ended."""
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop


def _produce(
    bootstrap: str, topic: str, partitions: int, load: Load, stop: threading.Event
) -> list[tuple[float, float, int]]:
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}
    producer = Producer({**settings, "message.timeout.ms": int(_LIMIT_S * 1000)})
    value = bytes(int(load.message_bytes))
    timed: list[tuple[float, float, int]] = []

    def send(partition: int) -> None:
        sent_s = time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                raise SystemExit(f"a message was lost: {error}")
            timed.append((sent_s, time.monotonic() - sent_s, partition))

        producer.produce(topic, value, partition=partition, on_delivery=delivered)

    began_s, sent = time.monotonic(), 0
    while not stop.is_set():
        due = int(load.written(time.monotonic() - began_s) / load.message_bytes)
        for number in range(sent, due):
            send(number % partitions)
        sent = due
        producer.poll(_TURN_S)
    if missing := producer.flush(_LIMIT_S):
        raise SystemExit(f"{missing} messages were never acknowledged")
    return timed


if __name__ == "__main__":
    main()
