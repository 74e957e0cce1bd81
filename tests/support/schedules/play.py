"""One schedule of faults and commands, played on real brokers with a real engine."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.host.ownership import holder
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Answered, JournalEntry
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.pool import redirect_client_log
from ktui.kafka.workload import create_topic, fill
from ktui.lab.nodes import wait_for
from ktui.lab.security import ADMIN, librdkafka_settings
from support.cli.shell import Shell
from support.kafka.acked_messages import AckedMessages, Writing
from support.kafka.real_runs import Settings, all_settings
from support.schedules.nodes import Nodes, lasting_login
from support.schedules.schedule import (
    BROKERS,
    HELD_S,
    PARTITIONS,
    Asked,
    Event,
    Fault,
    Schedule,
    Topic,
)

_KNOWN_AFTER_S = 30.0  # seconds after which a request has been answered or given up


class Held:
    """Suspends brokers at the moment when requests leave, until one holds a request of ours."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._broker: int | None = None
        self._since_s = 0.0
        self._asked: list[TopicPartition] = []
        self._seq = 0
        self._holds = False
        self._not: set[int] = set()

    def looked(self) -> bool:
        """Take the next action, and return whether all is over."""
        if self._broker is None:
            self._suspend()
        elif self._holds:
            return self._released()
        else:
            self._judge(self._broker)
        return False

    def _suspend(self) -> None:
        play = self._play
        flying = play.leaving()
        if not (flying and _connected(play)):
            return
        if len(self._not) == len(BROKERS):
            self._not.clear()
        left = [broker for broker in BROKERS if broker not in self._not]
        broker = play.dice.choice(left)
        self._asked, self._seq = [track.tp for track in flying], play.run.seq
        if play.nodes.break_down(broker, suspend=True):
            self._broker, self._since_s = broker, play.now_s

    def _judge(self, broker: int) -> None:
        """Find out from the answers whether this broker holds a request; resume it if not."""
        play = self._play
        answers = {
            entry.event.tp: entry.event
            for entry in play.entries
            if entry.seq > self._seq and isinstance(entry.event, Answered)
        }
        lost = [a for a in answers.values() if a.verdict is Verdict.UNKNOWN and a.node == broker]
        if lost:
            self._holds = play.holding = True
            play.note(f"broker {broker} has {len(lost)} requests, and stays suspended")
        elif answers.keys() >= {*self._asked} or play.now_s - self._since_s > _KNOWN_AFTER_S:
            if all(answer.verdict is Verdict.ACCEPTED for answer in answers.values()):
                self._not.add(broker)
            self._broker = None
            play.nodes.resume(broker)
            play.note(f"broker {broker} was suspended a moment, and had no request")

    def _released(self) -> bool:
        if self._broker is None or self._play.now_s < self._since_s + HELD_S:
            return False
        self._play.nodes.resume(self._broker)
        self._play.note(f"broker {self._broker} goes on")
        self._play.fired[Fault.HOLDER_SUSPENDED] += 1
        self._play.holding = False
        return True


def _connected(play: Play) -> bool:
    """Return whether the engine has a connection for its changes; it stays with one broker."""
    answers = (entry.event for entry in play.entries if isinstance(entry.event, Answered))
    return any(answer.verdict is Verdict.ACCEPTED for answer in answers)


BOUND_S = 90.0  # seconds after which a run has ended, or reports what it waits for
END_S = 240.0  # seconds after the last repair by which the run has ended
_BYTES_EACH = 1024 * 1024
_LARGE = 8192
_TURN_S = 0.01
_READ_OUT_S = 30.0
"""Seconds to wait for acknowledged messages at the end; those that Kafka lost never come."""
_TRAPS_S = 40.0  # seconds to wait for the right moment for a fault
_QUIET_S = 10.0  # a run with a journal entry in the last this many seconds is between two steps
_VERBS = {
    Asked.PAUSE: "pause",
    Asked.CONTINUE: "continue",
    Asked.LIMITS: "limits",
    Asked.THROTTLE: "throttle",
    Asked.STOP_PARTITION: "cancel",
    Asked.STOP_TOPIC: "cancel",
    Asked.STOP_ALL: "cancel",
    Asked.ROLLBACK: "cancel",
}


class Command(msgspec.Struct):
    """A call of ktui, with its result."""

    what: Asked
    process: subprocess.Popen[str]
    code: int | None = None
    said: str = ""


class Play:
    """Plays a schedule; afterwards it holds all data that the judge needs.

    Args:
        schedule: the schedule to play.
        nodes: the nodes of the cluster.
        folder: the folder for the state directory and the plan.
    """

    def __init__(self, schedule: Schedule, nodes: Nodes, folder: Path) -> None:
        self.schedule, self.nodes = schedule, nodes
        self.connection = Connection.of(librdkafka_settings(nodes.lab), where="the lab")
        self.shell = Shell(nodes.lab, folder)
        self.run = Run(schedule.run)
        self.entries: list[JournalEntry] = []
        self.fired: Counter[Fault | Asked] = Counter()
        self.happened: list[str] = []
        self.problems: list[str] = []
        self.traffic: list[AckedMessages] = []
        self.commands: list[Command] = []
        self.settings: Settings = {}
        self.dice = random.Random(f"play {schedule.number}")  # noqa: S311 - a test's dice
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._traps: list[Callable[[], bool]] = []
        self._elected: set[TopicPartition] = set()
        self._began_s = 0.0
        self._journal: Journal | None = None
        self.took_s = 0.0
        self.holding = False  # whether a broker is suspended while it holds a request
        self._in_flight: list[tuple[int, list[TopicPartition]]] = []
        """Per kill of a controller, the journal's end and the partitions with open requests."""

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def _gives_up_s(self) -> float:
        """Second until which the play waits for the right moment for a fault."""
        return _TRAPS_S if self.schedule.holds else self.schedule.over_s + _TRAPS_S

    @property
    def name(self) -> str:
        return self.schedule.run

    @property
    def ended(self) -> bool:
        """Whether the run has ended and its engine is gone."""
        return self.run.ended and holder(self.shell.run_dir(self.name)) is None

    def play(self) -> None:
        """Play the schedule to the end of its run."""
        with ExitStack() as stack:
            stack.callback(self.shell.close)
            stack.callback(self.nodes.mend)
            stack.callback(self._close)
            for topic in self.schedule.topics:
                self._make(topic)
            for topic in self.schedule.topics:
                self.traffic.append(stack.enter_context(self._messages(topic)))
            assert wait_for(lambda: all(each.read for each in self.traffic), seconds=60), "no data"
            self.settings = all_settings(self.connection)
            self._start()
            self._carry_out()
            self._to_the_end()
            self._collect()

    def note(self, what: str) -> None:
        """Note what happened, with the second."""
        self.happened.append(f"{self.now_s:.1f} {what}")

    def _make(self, topic: Topic) -> None:
        replicas = [before for before, _ in topic.ways]
        create_topic(self.connection, topic.name, replicas, settings=topic.settings)
        fill(
            self.connection,
            topic.name,
            range(PARTITIONS),
            bytes_each=_BYTES_EACH,
            message_bytes=_LARGE,
        )

    def _messages(self, topic: Topic) -> AckedMessages:
        return AckedMessages(
            self.connection,
            topic.name,
            PARTITIONS,
            writing=topic.writing,
            every_s=0.02,
            group=f"readers of {topic.name}",
            limit_s=_READ_OUT_S,
        )

    def _start(self) -> None:
        targets = [
            {"topic": topic.name, "partition": number, "replicas": list(after)}
            for topic in self.schedule.topics
            for number, (_, after) in enumerate(topic.ways)
        ]
        plan = self.shell.plan(self.name, targets)
        words = (*self._login(), "--headless", *self.schedule.words)
        self.shell.begin("start", plan, *words)
        self._began_s = time.monotonic()
        assert wait_for(self._look, seconds=60), self.shell.log(self.name)
        self._began_s = time.monotonic()
        for event in self.schedule.events:
            self._at(event.at_s, partial(self._happens, event))

    def _look(self) -> bool:
        """Read new journal entries; return whether the run is or was owned."""
        if self._journal is None:
            path = self.shell.run_dir(self.name).journal
            if not path.exists() or not self.shell.entries(self.name):
                return False
            self._journal = Journal.open(path, SystemClock(), read_only=True)
        for entry in self._journal.entries(after=self.run.seq):
            self.entries.append(entry)
            self.run.apply(entry)
        return self.run.owner is not None

    def _at(self, at_s: float, does: Callable[[], None]) -> None:
        self._due.append((at_s, does))
        self._due.sort(key=lambda due: due[0])

    def _carry_out(self) -> None:
        """Play the due events, until there are no more or the run has ended."""
        while (self._due or self._traps) and not self.ended:
            self._look()
            if self._due and self._due[0][0] <= self.now_s:
                self._due.pop(0)[1]()
            self._traps = [trap for trap in self._traps if not trap()]
            if not self._due and not self.holding and self.now_s > self._gives_up_s:
                break
            time.sleep(_TURN_S)

    def _happens(self, event: Event) -> None:
        if isinstance(event.what, Asked):
            self._ask(event.what, *event.words)
            return
        match event.what:
            case Fault.CONTROLLER_KILLED:
                self._traps.append(lambda: self._kill_controller(event.lasts_s))
            case Fault.HOLDER_SUSPENDED:
                self._traps.append(Held(self).looked)
            case Fault.ENGINE_KILLED:
                self._kill_engine(event.lasts_s)
            case Fault.LAST_COPY_KILLED:
                self._kill_last_copy(event.lasts_s)
            case _:
                broker = self.dice.choice(BROKERS)
                self._break(event.what, broker, event.lasts_s)

    def _break(self, what: Fault, broker: int, lasts_s: float) -> None:
        suspends = what is Fault.BROKER_SUSPENDED
        if self.nodes.break_down(broker, suspend=suspends):
            self.fired[what] += 1
            self.note(f"{what} ({broker}, {lasts_s:.0f} s)")
            back = self.nodes.resume if suspends else self.nodes.start
            self._at(self.now_s + lasts_s, lambda: back(broker))

    def _kill_last_copy(self, lasts_s: float) -> None:
        """Kill a follower; once it has left the ISR, kill the leader while the follower comes back.

        The controllers' log shows whether a replica out of sync was elected.
        """
        second, first = self._elects_any().ways[-1][0]
        if not self.nodes.break_down(first, suspend=False):
            return
        self.note(f"{Fault.LAST_COPY_KILLED}? ({first}, then {second})")
        kill = self.now_s + lasts_s / 2
        self._at(kill, lambda: self._note_down(second))
        self._at(kill + 0.1, lambda: self.nodes.start(first))
        self._at(self.now_s + lasts_s, lambda: self.nodes.start(second))

    def _elects_any(self) -> Topic:
        return next(t for t in self.schedule.topics if t.writing is Writing.IDEMPOTENT)

    def _note_down(self, broker: int) -> None:
        self.note(f"broker {broker} killed")
        self.nodes.break_down(broker, suspend=False)

    def _kill_engine(self, again_s: float) -> None:
        owner = holder(self.shell.run_dir(self.name))
        if owner is None or self.run.ended:
            return
        os.kill(owner.pid, signal.SIGKILL)
        self.fired[Fault.ENGINE_KILLED] += 1
        on_their_way = len(self.unanswered())
        self.note(f"{Fault.ENGINE_KILLED} with {on_their_way} requests begun")
        self._at(self.now_s + again_s, self._resume)

    def _resume(self) -> None:
        if not (self._is_owned or self.run.ended):  # a cancel may have resumed it already
            self.shell.begin("resume", self.name, "--headless")

    def unanswered(self) -> list[Track]:
        """Return the partitions with a request that was begun and not answered."""
        return [track for track in self.run.tracks_in_flight.values() if _is_open(track)]

    def leaving(self) -> list[Track]:
        """Return the partitions whose request is leaving or has left: their throttle is set."""
        return [] if self.run.throttled.asked else self.unanswered()

    def _kill_controller(self, lasts_s: float) -> bool:
        """Kill the active controller once requests are in flight; return whether that is done."""
        if not self.leaving() or not self.nodes.all_run:
            return False
        time.sleep(self.dice.uniform(0.0, 0.2))
        active = self.nodes.active_controller()
        if active is None or not self.nodes.break_down(active, suspend=False):
            return False
        self._look()
        flying = [track.tp for track in self.unanswered()]
        self._at(self.now_s + lasts_s, lambda: self.nodes.start(active))
        self.note(f"controller {active} killed with {len(flying)} requests begun")
        self._in_flight.append((self.run.seq, flying))
        return bool(flying)

    def _count_sent(self) -> None:
        """Count the kills of a controller at which a request had left, or was just leaving."""
        for seq, flying in self._in_flight:
            answers = [
                entry.event
                for entry in self.entries
                if entry.seq > seq and isinstance(entry.event, Answered)
            ]
            first = {answer.tp: answer for answer in reversed(answers)}
            sent = [tp for tp in flying if (a := first.get(tp)) is None or _was_sent(a)]
            self.fired[Fault.CONTROLLER_KILLED] += bool(sent)

    def _ask(self, what: Asked, *words: str) -> None:
        if self.run.ended or holder(self.shell.run_dir(self.name)) is None:
            return
        self.note(" ".join((_VERBS[what], *words)))
        process = self.shell.begin(_VERBS[what], self.name, *words, *self._config(what))
        self.commands.append(Command(what, process))

    def _config(self, what: Asked) -> tuple[str, ...]:
        return self._login() if _VERBS[what] == "cancel" else ()

    def _login(self) -> tuple[str, str]:
        lab = self.nodes.lab
        config = lasting_login(lab) if self.schedule.holds else lab.client_file(ADMIN)
        return "--command-config", str(config)

    def _to_the_end(self) -> None:
        """Repair everything, let the run continue, and wait for its end."""
        self._due.clear()
        self.nodes.mend()
        self._look()
        self.note("all is whole")
        assert wait_for(lambda: not self._asking, seconds=120), "a command does not end"
        self._look()
        self._resume()
        wait_for(lambda: self._look() and (self.run.ended or self._is_owned), seconds=60)
        for what, words in ((Asked.CONTINUE, ()), (Asked.THROTTLE, ("20MB",))):
            self._ask(what, *words)
        whole_s, judged = self.now_s, False
        while not self.ended and self.now_s < whole_s + END_S:
            self._look()
            self._elect_where_kafka_does_not()
            if not judged and self.now_s > BOUND_S:
                judged = True
                self._says_what_it_waits_for()
            time.sleep(0.1)
        self._look()
        self.took_s = self.now_s
        self.note("ended" if self.run.ended else "NOT ENDED")
        if not self.ended:
            waits = [f"{t.tp} {t.state}: {t.reason}" for t in self.run.tracks.values()]
            self.problems.append(f"it has not ended {END_S:.0f} s after all was whole: {waits}")

    def _elect_where_kafka_does_not(self) -> None:
        """Elect by hand where a partition's reason asks for it.

        That happens if the eligible leader is no longer a replica."""
        waiting = {
            track.tp
            for track in self.run.tracks.values()
            if track.state is State.BLOCKED and "--election-type unclean" in track.reason
        } - self._elected
        if not waiting:
            return
        self._elected |= waiting
        self.note(f"elected by hand: {', '.join(map(str, sorted(waiting)))}")
        admin = AdminClient(
            {**self.connection.for_confluent()}, logger=redirect_client_log("librdkafka")
        )
        asked = [ConfluentPartition(tp.topic, tp.partition) for tp in sorted(waiting)]
        admin.elect_leaders(ElectionType.UNCLEAN, asked).result(30)

    @property
    def _is_owned(self) -> bool:
        return holder(self.shell.run_dir(self.name)) is not None

    @property
    def _asking(self) -> bool:
        """Whether a command still runs; one may execute a cancel, with the run paused."""
        return any(command.process.poll() is None for command in self.commands)

    def _says_what_it_waits_for(self) -> None:
        left = [track for track in self.run.tracks.values() if not track.state.ended]
        moved_on = datetime.now(UTC) - self.entries[-1].at < timedelta(seconds=_QUIET_S)
        if left and not (
            moved_on or self.run.tracks_in_flight or any(track.reason for track in left)
        ):
            self.problems.append(f"after {BOUND_S:.0f} s it says nothing of why: {left}")

    def _collect(self) -> None:
        """Collect the result of each command, and check that none shows a traceback."""
        self._count_sent()
        for command in self.commands:
            out, err = command.process.communicate(timeout=60)
            command.code, command.said = command.process.returncode, (out + err).strip()
            self.fired[command.what] += command.code == 0
            if command.code:
                self.happened.append(f"{command.what}: {command.code} {command.said[-200:]}")
            if "Traceback" in command.said:
                self.problems.append(f"{command.what}: {command.said}")
        if "Traceback" in self.shell.log(self.name):
            self.problems.append(self.shell.log(self.name))

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _is_open(track: Track) -> bool:
    step = track.step
    return step is not None and step.begun.alters and step.answered is None


def _was_sent(answer: Answered) -> bool:
    return not (answer.verdict is Verdict.REFUSED and answer.code is None)
