"""Cordon and uncordon the log dirs of a broker (KIP-1066), and read back what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from ktui.cluster.asking import LEAVES_WITHIN_S
from ktui.cluster.broker import LogDir
from ktui.cluster.clock import Clock, read_until
from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import (
    ClusterPorts,
    ClusterReader,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    CORDONED,
    EVERY,
    LOG_DIRS,
    broker_resource,
    cordoned_paths,
    split_paths,
)
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.status import BrokerFacts, read_broker
from ktui.planning.plan import join_all
from ktui.quantities import as_count

READ_BACK_S = 10.0  # until a broker reports a change of its cordon
_TOO_OLD = (
    "Kafka has no cordon before 4.3: until the broker stops, new topics and partitions may land on "
    "it. Plan them away as they come"
)


class NoCordon(RunRefused):
    """The broker's Kafka knows no cordon; nothing was sent."""


class CordonState(msgspec.Struct, frozen=True):
    """The cordon of a broker, as the broker itself reports it."""

    broker: int
    setting: Setting  # of cordoned.log.dirs
    log_dirs: tuple[LogDir, ...]
    configured: tuple[str, ...] = ()  # as the properties file names them; empty where not reported

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(each.path for each in self.log_dirs))

    @property
    def cordoned(self) -> frozenset[str]:
        return frozenset(each.path for each in self.log_dirs if each.cordoned)

    @property
    def relative(self) -> tuple[str, ...]:
        return tuple(path for path in self.configured if not path.startswith("/"))

    @property
    def value(self) -> str:
        if self.setting.source is ConfigSource.DEFAULT:
            return "not set"
        where = "" if self.setting.own is not None else f" ({self.setting.source})"
        return f"{self.setting.value or 'empty'}{where}"

    @property
    def hint(self) -> str:
        """A sentence about relative log dirs, to be added to an error; empty without any."""
        if not self.relative:
            return ""
        return (
            f". Its properties file names log dirs by relative paths ({join_all(self.relative)}), "
            "which Kafka does not cordon (KAFKA-20901): make them absolute"
        )

    @property
    def summary(self) -> str:
        few = f"{len(self.cordoned)} of {as_count(len(self.paths), 'log dir')} cordoned"
        return f"{few}: {join_all(sorted(self.cordoned))}"

    @property
    def outcome(self) -> str:
        if not self.cordoned:
            return (
                f"broker {self.broker} reports no cordoned log dir: new partitions may come to it"
            )
        return f"broker {self.broker} reports {self.summary}"

    @property
    def by_file(self) -> str:
        return (
            f"the properties file of broker {self.broker} cordons "
            f"{join_all(sorted(self.cordoned))}: change {CORDONED} there, and restart the broker"
        )

    def with_cordons(self, paths: Sequence[str]) -> str:
        """Return the value that cordons these log dirs too; no path means all of them."""
        present = split_paths(self.setting.value)
        wanted = (*present, *paths) if paths else (EVERY,)
        return EVERY if EVERY in wanted else ",".join(sorted(dict.fromkeys(wanted)))

    def missing(self, value: str) -> tuple[str, ...]:
        working = [each.path for each in self.log_dirs if each.error is None]
        return tuple(sorted(cordoned_paths(value, working) - self.cordoned))

    def has(self, value: str) -> bool:
        return value == self.setting.value and not self.missing(value)


def down_words(broker: int, up: Collection[int]) -> str:
    """Return the sentence that a broker is not up, and so has no cordon to change."""
    return (
        f"broker {broker} is not up: it has to answer for its own setting. Up: "
        f"{join_all(sorted(up)) or 'none'}"
    )


class Cordoner:
    """Cordons the log dirs of one broker."""

    def __init__(self, ports: ClusterPorts, broker: int, clock: Clock) -> None:
        self._ports = ports
        self._broker = broker
        self._resource = broker_resource(broker)
        self._clock = clock

    async def read(self) -> CordonState:
        """From the broker. Raises NoCordon, RunProblem: not readable, ClusterError: no answer."""
        names = (CORDONED, *LOG_DIRS)
        answer = await self._ports.reader.settings([self._resource], names)
        settings = answer.settings.get(self._resource)
        if settings is None:
            why = answer.failures.get(self._resource, "no answer")
            raise RunProblem(f"the settings of broker {self._broker} cannot be read: {why}")
        if CORDONED not in settings:
            raise NoCordon(f"nothing was sent: broker {self._broker} has no {CORDONED}. {_TOO_OLD}")
        log_dirs = await self._ports.reader.log_dirs(self._broker, ())
        named = (settings[name].value for name in LOG_DIRS if name in settings)
        return CordonState(
            self._broker,
            settings[CORDONED],
            log_dirs.log_dirs,
            split_paths(next(filter(None, named), "")),
        )

    async def cordon(self, before: CordonState, value: str) -> CordonState:
        """Wait for it; undo one without effect. RunRefused or ClusterError: nothing changed."""
        result = await self._send(value, before.hint)

        def in_force(now: CordonState) -> bool:
            return now.setting.own is not None and not now.missing(value)

        now = await self._known_within(in_force)
        if now is not None and in_force(now):
            return now
        if now is not None and now.setting.own is None:
            raise RunProblem(self._not_set(result))
        raise RunProblem(await self._put_back(before, now, value))

    async def uncordon(self) -> CordonState:
        """Delete the dynamic setting. Raises RunRefused, RunProblem, ClusterError."""
        result = await self._send(None)

        def gone(now: CordonState) -> bool:
            return now.setting.own is None and now.cordoned == cordoned_paths(
                now.setting.value, now.paths
            )

        now = await self._known_within(gone)
        if now is None or now.setting.own is not None:
            raise RunProblem(self._not_set(result))
        return now

    async def restore(self, value: str | None) -> None:
        """Put the broker's earlier setting back. Raises RunRefused, RunProblem, ClusterError."""
        result = await self._send(value)
        now = await self._known_within(lambda state: state.setting.own == value)
        if now is None or now.setting.own != value:
            raise RunProblem(self._not_set(result))

    async def _send(self, value: str | None, hint: str = "") -> WriteResult:
        op = ConfigOp.DELETE if value is None else ConfigOp.SET
        change = ConfigChange(self._resource, CORDONED, op, value)
        results = await self._ports.writer.alter_configs([change], leaves_within_s=LEAVES_WITHIN_S)
        result = results.get(self._resource, WriteResult(Verdict.UNKNOWN))
        if result.verdict is Verdict.REFUSED:
            words = ": ".join(filter(None, (result.code, result.message)))
            raise RunRefused(f"nothing was changed: Kafka refuses {CORDONED}: {words}{hint}")
        return result

    async def _known_within(self, done: Callable[[CordonState], bool]) -> CordonState | None:
        lost = (ClusterError, RunProblem)
        return await read_until(self.read, done, self._clock, READ_BACK_S, lost=lost)

    async def _put_back(self, before: CordonState, now: CordonState | None, value: str) -> str:
        missing = () if now is None else now.missing(value)
        what = join_all(missing) or "its log dirs"
        why = (
            f"Kafka accepted {CORDONED}={value} for broker {self._broker}, but the broker does not "
            f"report {what} as cordoned"
        )
        why += before.hint
        try:
            await self._send(before.setting.own)
        except (ClusterError, RunProblem) as error:
            undo = f"ktui broker uncordon {self._broker}"
            return f"{why}. The setting could not be put back ({error}): {undo}"
        back = await self._known_within(lambda s: s.setting.own == before.setting.own)
        if back is None or back.setting.own != before.setting.own:
            return f"{why}. The setting was put back, and the broker does not report that yet"
        return f"{why}. The setting is as before: {before.value}"

    def _not_set(self, result: WriteResult) -> str:
        lost = "the answer was lost" if result.verdict is Verdict.UNKNOWN else "Kafka accepted it"
        return (
            f"{CORDONED} of broker {self._broker}: {lost}, and the broker does not report the "
            f"change within {READ_BACK_S:.0f} s. See: ktui broker status {self._broker}"
        )


OpenPorts = Callable[[], AbstractAsyncContextManager[ClusterPorts]]
"""RunRefused: another directory owns it."""


class BrokerAccess:
    """Reads what brokers hold, and cordons them."""

    def __init__(
        self, reader: ClusterReader, clock: Clock, change: OpenPorts | None = None
    ) -> None:
        self._reader, self.clock, self._change = reader, clock, change

    @property
    def may_change(self) -> bool:
        return self._change is not None

    async def read(self, broker: int) -> tuple[BrokerFacts, bool]:
        """With whether the metadata was proven to be current. Raises ClusterError."""
        try:
            return await read_broker(self._reader, broker, fresh=True), True
        except ClusterError:  # perhaps only the proof: it needs a permission of its own
            return await read_broker(self._reader, broker), False

    async def read_cordon(self, broker: int) -> CordonState:
        """To be changed. Raises RunRefused: not possible; RunProblem, ClusterError."""
        async with self._open() as ports:
            return await (await self._cordoner(ports, broker)).read()

    async def cordon(self, seen: CordonState) -> CordonState:
        """Only if its cordon is as the operator saw it. Raises: as `Cordoner.cordon`."""
        async with self._open() as ports:
            cordoner = await self._cordoner(ports, seen.broker)
            now = await _unchanged(cordoner, seen)
            return await cordoner.cordon(now, now.with_cordons(()))

    async def uncordon(self, seen: CordonState) -> CordonState:
        """The same; RunProblem also where the properties file has a cordon."""
        async with self._open() as ports:
            cordoner = await self._cordoner(ports, seen.broker)
            await _unchanged(cordoner, seen)
            after = await cordoner.uncordon()
        if after.cordoned:
            raise RunProblem(f"the setting is removed, but {after.by_file}")
        return after

    def _open(self) -> AbstractAsyncContextManager[ClusterPorts]:
        if self._change is None:
            raise RunRefused("nothing was sent: this view is read-only")
        return self._change()

    async def _cordoner(self, ports: ClusterPorts, broker: int) -> Cordoner:
        online = (await ports.reader.describe_cluster()).online
        if broker not in online:
            raise RunRefused(f"nothing was sent: {down_words(broker, online)}")
        return Cordoner(ports, broker, self.clock)


async def _unchanged(cordoner: Cordoner, seen: CordonState) -> CordonState:
    now = await cordoner.read()
    if now.setting != seen.setting:
        raise RunRefused(
            f"nothing was sent: the cordon of broker {seen.broker} has changed meanwhile, from "
            f"{seen.value} to {now.value}. Look again, then decide"
        )
    return now
