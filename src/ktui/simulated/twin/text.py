"""A twin as the text of a scenario file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC

from ktui.cluster.partition import Brokers, Replica
from ktui.quantities import as_size
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import SnapshotInfo
from ktui.simulated.twin.make import ClusterTwin

_WIDTH = 100
_HEAD = "# Taken by `ktui snapshot`. To play it: ktui demo FILE"


def twin_text(twin: ClusterTwin, title: str, about: str) -> str:
    """Return the text of a scenario file that has the twin as its cluster."""
    lines = [_HEAD, f"title: {_quoted(title)}", f"about: {_quoted(about)}"]
    lines += _snapshot(twin.info)
    lines += _cluster(twin.spec)
    lines.append("topics:" if twin.spec.topics else "topics: {}")
    down = frozenset(broker.id for broker in twin.spec.brokers if broker.down)
    for topic in twin.spec.topics:
        lines += _topic(topic, down)
    return "\n".join(lines) + "\n"


def _snapshot(info: SnapshotInfo) -> Iterator[str]:
    rates = info.rates
    taken = info.taken.astimezone(UTC).isoformat().replace("+00:00", "Z")
    yield "snapshot:"
    yield f"  cluster: {_quoted(info.cluster)}"
    yield f"  taken: {_quoted(taken)}"
    figures = [f"{name}: {_rate(getattr(rates, name))}" for name in ("slow", "usual", "fast")]
    if rates.half_at:
        figures.append(f"half-at: {_number(rates.half_at)}")
    if rates.most_at is not None:
        figures.append(f"most-at: {rates.most_at}")
    if rates.throttled != 1:
        figures.append(f"throttled: {_number(rates.throttled)}")
    yield f"  rates: {{{', '.join(figures)}, from: {rates.source.value}}}"


def _cluster(spec: ClusterSpec) -> Iterator[str]:
    yield "cluster:"
    yield f"  version: {_quoted(spec.version)}"
    yield f"  name: {_quoted(spec.name)}"
    yield f"  session-timeout: {_number(spec.session_timeout_s)}"
    if spec.copy_start_s:
        yield f"  copy-start: {_number(spec.copy_start_s)}"
    yield f"  replica-lag-time: {_number(spec.lag_time_max_s)}"
    yield f"  auto-leader-rebalance: {str(spec.auto_leader_rebalance).lower()}"
    yield f"  rebalance-interval: {_number(spec.rebalance_interval_s)}"
    yield f"  configs: {_map(spec.broker_configs)}"
    yield "  brokers:"
    for broker in spec.brokers:
        yield f"    - {{{', '.join(_broker(broker))}}}"


def _broker(spec: BrokerSpec) -> Iterator[str]:
    yield f"id: {spec.id}"
    if spec.rack is not None:
        yield f"rack: {_quoted(spec.rack)}"
    if spec.down:
        yield "down: true"
    yield f"network-in: {_rate(spec.net_in)}"
    yield f"network-out: {_rate(spec.net_out)}"
    yield f"disk-write: {_rate(spec.disk_write)}"
    yield f"copy-in: {_rate(spec.copy_in)}"
    if spec.copy_half_at:
        yield f"copy-half-at: {_number(spec.copy_half_at)}"
    if spec.copy_most_at < math.inf:
        yield f"copy-most-at: {_number(spec.copy_most_at)}"
    if spec.throttle_share != 1:
        yield f"throttle-share: {_number(spec.throttle_share)}"
    yield f"disk: {as_size(spec.disk_bytes)}"
    if spec.configs:
        yield f"configs: {_map(spec.configs)}"


def _topic(topic: TopicSpec, down: frozenset[int]) -> Iterator[str]:
    yield f"  {_quoted(topic.name)}:"
    yield from _words("replicas", (_listed(replicas) for replicas in topic.replicas))
    yield from _words("size", map(str, topic.sizes or (topic.bytes_each,)))
    rates = topic.inbounds or (topic.inbound,)
    yield from _words("inbound", (_number(rate) for rate in rates))
    yield f"    message-size: {topic.message_bytes}"
    if topic.configs:
        yield f"    configs: {_map(topic.configs)}"
    start = topic.start
    yield from _words("reassigning", _entries(start.reassigning))
    yield from _words("isr", _entries(start.isr))
    yield from _words("leaders", _entries({n: (b,) for n, b in start.leaders.items()}))
    yield from _words("held", _held(topic, down))


def _words(key: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a key whose value is a text of words; nothing without any."""
    line = f"    {key}:"
    for word in words:
        if len(line) + len(word) >= _WIDTH:
            yield line
            line = "     "
        line += f" {word}"
    if not line.endswith(":"):
        yield line


def _entries(of: Mapping[int, Brokers]) -> Iterator[str]:
    return (f"{number}={_listed(brokers)}" for number, brokers in sorted(of.items()))


def _held(topic: TopicSpec, down: frozenset[int]) -> Iterator[str]:
    """Yield what replicas out of sync hold, without those that a reader of the file knows of."""
    by_number: dict[int, dict[int, int]] = {}
    for replica, size in sorted(topic.start.held.items()):
        if not _known(topic, replica, size, down):
            by_number.setdefault(replica.tp.partition, {})[replica.broker] = size
    for number, sizes in by_number.items():
        yield f"{number}={','.join(f'{broker}:{size}' for broker, size in sizes.items())}"


def _known(topic: TopicSpec, replica: Replica, size: int, down: frozenset[int]) -> bool:
    number = replica.tp.partition
    had = replica.broker in down and replica.broker in topic.replicas[number]
    return had and size == topic.size(number)


def _listed(brokers: Brokers) -> str:
    return ",".join(map(str, brokers))


def _rate(bytes_s: float) -> str:
    return f"{as_size(round(bytes_s))}/s"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _map(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{_quoted(k)}: {_quoted(v)}' for k, v in values.items())}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
