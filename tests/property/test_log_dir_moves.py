"""Which moves between log dirs begin: the pace, the room and the order hold, whatever comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.reassign.log_dirs.pacing import Pace, Standing, moves_to_begin, standing
from ktui.cli.reassign.printed.java_order import sorted_replicas
from ktui.cluster.broker import FutureReplica, LogDir, ReplicaDir
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import LogDirsAnswer

PATHS = ("/a", "/b", "/c")
BROKERS = (1, 2)
Answers = dict[int, LogDirsAnswer]
Wanted = dict[Replica, str]


class Case(msgspec.Struct):
    """A cluster and the log dirs that a file wants."""

    answers: Answers
    wanted: Wanted
    pace: Pace


@st.composite
def replicas(draw: st.DrawFn) -> ReplicaDir:
    path, size = draw(st.sampled_from(PATHS)), draw(st.integers(0, 9))
    others = [each for each in PATHS if each != path]
    to = draw(st.none() | st.none() | st.sampled_from(others))
    future = None if to is None else FutureReplica(to, draw(st.integers(0, size)), None)
    return ReplicaDir(path, size, future)


@st.composite
def cases(draw: st.DrawFn, *, room: bool = True) -> Case:
    free = st.integers(0, 20) if room else st.none()
    held = st.dictionaries(st.integers(0, 5), replicas(), max_size=6)
    answers = {
        broker: LogDirsAnswer(
            tuple(LogDir(broker, path, usable_bytes=draw(free)) for path in PATHS),
            {TopicPartition("t", number): each for number, each in draw(held).items()},
        )
        for broker in BROKERS
    }
    every = [Replica(tp, b) for b, answer in answers.items() for tp in answer.replicas]
    chosen = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    wanted = {replica: draw(st.sampled_from(PATHS)) for replica in chosen}
    pace = Pace(
        per_dir=draw(st.none() | st.integers(1, 3)),
        one_broker=draw(st.booleans()),
        full_dirs=draw(st.booleans()) if room else False,
    )
    return Case(answers, still_open(wanted, answers), pace)


def held(answers: Answers, replica: Replica) -> ReplicaDir:
    return answers[replica.broker].replicas[replica.tp]


def still_open(wanted: Wanted, answers: Answers) -> Wanted:
    """Leave out the moves that are complete, as the command does."""
    return {
        replica: path
        for replica, path in wanted.items()
        if standing(held(answers, replica), path) is not Standing.COMPLETE
    }


def decide(case: Case) -> Sequence[Replica]:
    return moves_to_begin(case.wanted, case.answers, case.pace).begin


def put(answers: Answers, replica: Replica, now: ReplicaDir) -> Answers:
    answer = answers[replica.broker]
    changed = LogDirsAnswer(answer.log_dirs, {**answer.replicas, replica.tp: now})
    return {**answers, replica.broker: changed}


def begun(case: Case, replicas: Sequence[Replica]) -> Case:
    """Return what brokers answer once they have taken these moves on."""
    answers = case.answers
    for replica in replicas:
        now, path = held(answers, replica), case.wanted[replica]
        future = None if path == now.path else FutureReplica(path, 0, None)
        answers = put(answers, replica, ReplicaDir(now.path, now.size, future))
    return Case(answers, still_open(case.wanted, answers), case.pace)


def under_way(answers: Answers) -> Iterator[tuple[int, ReplicaDir, FutureReplica]]:
    for broker, answer in answers.items():
        for each in answer.replicas.values():
            if each.future is not None:
                yield broker, each, each.future


def busy(answers: Answers) -> Counter[tuple[int, str]]:
    """Return how many replicas move into or out of each log dir."""
    moving = [(b, path) for b, each, to in under_way(answers) for path in (each.path, to.path)]
    return Counter(moving)


def reserved(answers: Answers) -> Counter[tuple[int, str]]:
    """Return the bytes that are still to come into each log dir."""
    into: Counter[tuple[int, str]] = Counter()
    for broker, each, to in under_way(answers):
        into[broker, to.path] += each.size - to.size
    return into


def free(answers: Answers) -> Mapping[tuple[int, str], int]:
    dirs = (each for answer in answers.values() for each in answer.log_dirs)
    return {(d.broker, d.path): d.usable_bytes for d in dirs if d.usable_bytes is not None}


@given(cases())
def test_no_log_dir_has_more_moves_than_the_pace_unless_it_had_before(case: Case) -> None:
    before, after = busy(case.answers), busy(begun(case, decide(case)).answers)

    for place, count in after.items():
        assert case.pace.per_dir is None or count <= max(case.pace.per_dir, before[place])


@given(cases())
def test_moves_of_one_broker_are_complete_before_those_of_the_next_begin(case: Case) -> None:
    begin = decide(case)

    if case.pace.one_broker and begin:
        (broker,) = {replica.broker for replica in begin}
        for replica, path in case.wanted.items():
            if replica.broker != broker:
                assert standing(held(case.answers, replica), path) is not Standing.UNDER_WAY
                busy_already = any(
                    standing(held(case.answers, r), p) is Standing.UNDER_WAY
                    for r, p in case.wanted.items()
                    if r.broker == broker
                )
                assert replica.broker > broker or busy_already


@given(cases())
def test_moves_into_a_log_dir_never_need_more_than_is_free_there(case: Case) -> None:
    begin = decide(case)

    if not case.pace.full_dirs:
        after = reserved(begun(case, begin).answers)
        into = {(r.broker, case.wanted[r]) for r in begin if r in begun(case, begin).wanted}
        for place in into:
            grown = [r for r in begin if (r.broker, case.wanted[r]) == place]
            if any(held(case.answers, r).size for r in grown):
                assert after[place] <= max(free(case.answers)[place], reserved(case.answers)[place])


@given(cases())
def test_moves_begin_in_the_order_of_brokers_topics_and_partitions(case: Case) -> None:
    begin = decide(case)

    assert list(begin) == sorted_replicas(begin)
    assert all(standing(held(case.answers, r), case.wanted[r]) is Standing.WAITING for r in begin)


@given(cases())
def test_what_has_begun_is_not_begun_again_and_nothing_more_fits(case: Case) -> None:
    first = decide(case)
    again = {*decide(begun(case, first))}

    assert not again & {*first}
    if not any(held(case.answers, replica).future for replica in first):  # nothing was freed
        turn = moves_to_begin(case.wanted, case.answers, case.pace).turn
        assert not {replica for replica in again if replica.broker in turn}


@given(cases())
def test_whatever_waits_alone_and_with_room_begins(case: Case) -> None:
    if not any(under_way(case.answers)):
        first = sorted_replicas(case.wanted)[:1]
        lacking = moves_to_begin(case.wanted, case.answers, case.pace).short
        assert set(first) <= {*decide(case), *lacking}


@given(cases(room=False), st.randoms(use_true_random=False))
def test_all_moves_are_complete_in_the_end_whatever_ends_first(case: Case, random: Random) -> None:
    for _ in range(50):
        begin = decide(case)
        case = begun(case, begin)
        moving = [
            Replica(tp, broker)
            for broker, answer in case.answers.items()
            for tp, each in answer.replicas.items()
            if each.future is not None
        ]
        if not moving and not begin:
            break
        if not moving:
            continue
        replica = random.choice(moving)
        now = held(case.answers, replica)
        assert now.future is not None
        answers = put(case.answers, replica, ReplicaDir(now.future.path, now.size))
        case = Case(answers, still_open(case.wanted, answers), case.pace)

    assert not case.wanted
