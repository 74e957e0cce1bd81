"""Flows: what an operator does with the tool on a cluster of three brokers, step by step.

Brokers 1, 2 and 3 are in the racks a, b and c. In words and plans, `{server}` and `{controller}`
are addresses, `{user:viewer}` is a user's client properties on a secured lab, and `{dir:3}` is the
log dir of broker 3. Plans are written to plan.json, lists of topics to topics.json.

A topic of 2 MiB a partition that moves at `SLOW` is under way until it is let go or cancelled.
"""

import enum
import json
from collections.abc import Sequence

import msgspec

from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)

SLOW, FAST = "--throttle 1000", "--throttle 1000000000"
PRINTED_PLAN = "the last plan that the program has printed"
DATA = 2048  # KiB in each partition of a topic that has to move slowly

_ON = "--bootstrap-server {server}"
_PLAN = "--reassignment-json-file plan.json"
EXECUTE = f"{_ON} --execute {_PLAN}"
VERIFY = f"{_ON} --verify {_PLAN}"
CANCEL = f"{_ON} --cancel {_PLAN}"
LIST = f"{_ON} --list"
GENERATE = f"{_ON} --generate --topics-to-move-json-file topics.json --broker-list"
_IMPATIENT = "--command-config impatient.properties"


class Where(enum.StrEnum):
    """The labs on which flows are played."""

    PLAIN = "plain"
    SECURED = "secured"
    LOG_DIRS = "log dirs"  # each broker has two log dirs, `{dir:3}` and `{dir:3}-2`


class CreateTopic(msgspec.Struct, frozen=True):
    """A new topic, with `kib` of messages in each partition."""

    topic: str
    replicas: tuple[tuple[int, ...], ...]
    kib: int = 0


class Run(msgspec.Struct, frozen=True):
    """One run of the program; the plan is written to its file before, if there is one."""

    words: str
    plan: str = ""


class Settle(msgspec.Struct, frozen=True):
    """A wait until nothing of a topic, or of the whole cluster, is being reassigned."""

    topic: str | None = None


class Kill(msgspec.Struct, frozen=True):
    """A broker loses power, and is fenced."""

    broker: int


class Restart(msgspec.Struct, frozen=True):
    """A killed broker comes back."""

    broker: int


class Reassign(msgspec.Struct, frozen=True):
    """A reassignment by another program; None cancels."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class Set(msgspec.Struct, frozen=True):
    """A setting by another program; None removes it."""

    scope: str
    name: str
    key: str
    value: str | None
    of_plan: bool = False
    """Whether it equals what an --execute of the plan sets, so that ktui removes it, too."""


class PutInFirstDirs(msgspec.Struct, frozen=True):
    """Every replica of a topic moves to the first log dir of its broker."""

    topic: str


class SettleDirs(msgspec.Struct, frozen=True):
    """A wait until no replica moves between log dirs."""


Preparation = CreateTopic | PutInFirstDirs | SettleDirs | Kill | Restart | Reassign | Set
Step = Preparation | Run | Settle


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One flow."""

    name: str
    steps: tuple[Step, ...]
    where: Where = Where.PLAIN
    in_every_run: bool = False
    """Whether `make test` plays it on ktui; the other flows are played in soak."""


def plan(
    *rows: tuple[str, int, Sequence[int]] | tuple[str, int, Sequence[int], Sequence[str]],
) -> str:
    """Return a reassignment file; each row is a topic, a partition, its replicas and log dirs."""
    names = ("topic", "partition", "replicas", "log_dirs")
    written = [dict(zip(names, row, strict=False)) for row in rows]
    return json.dumps({"version": 1, "partitions": written})


def topics(*names: str) -> str:
    return json.dumps({"version": 1, "topics": [{"topic": name} for name in names]})


_ORDERS = CreateTopic("orders", ((1, 2), (2, 1)))
_FULL = CreateTopic("orders", ((1, 2), (2, 1)), DATA)
_MOVE = plan(("orders", 0, (3, 2)))
_MOVE_BOTH = plan(("orders", 1, (3, 1)), ("orders", 0, (3, 2)))
_GROW = plan(("orders", 0, (1, 2, 3)))
_SLOW_MOVE = (_FULL, Run(f"{EXECUTE} {SLOW}", _MOVE))
_LET_GO = (Run(f"{EXECUTE} --additional {FAST}"), Settle(), Run(VERIFY))

_COMPLETE = (
    Flow(
        name="a reassignment is verified, executed and verified again",
        steps=(_ORDERS, Run(VERIFY, _MOVE_BOTH), Run(EXECUTE), Settle(), Run(VERIFY), Run(LIST)),
        in_every_run=True,
    ),
    Flow(
        name="a reassignment that is in place already is executed",
        steps=(_ORDERS, Run(EXECUTE, plan(("orders", 0, (1, 2)))), Settle(), Run(VERIFY)),
        in_every_run=True,
    ),
    Flow(
        name="the printed plan is the way back",
        steps=(
            *(_ORDERS, Run(EXECUTE, _MOVE_BOTH), Settle(), Run(VERIFY)),
            *(Run(VERIFY, plan(("orders", 0, (1, 2)), ("orders", 1, (2, 1)))), Run(EXECUTE)),
            *(Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="the replication factor grows",
        steps=(_ORDERS, Run(EXECUTE, _GROW), Settle(), Run(VERIFY)),
        in_every_run=True,
    ),
    Flow(
        name="the replication factor shrinks",
        steps=(_ORDERS, Run(EXECUTE, plan(("orders", 0, (2,)))), Settle(), Run(VERIFY)),
    ),
    Flow(
        name="only the order of the replicas changes",
        steps=(
            *(_ORDERS, Run(VERIFY, plan(("orders", 0, (2, 1)))), Run(f"{EXECUTE} {SLOW}")),
            *(Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="topics and partitions are printed in Java's order",
        steps=(
            CreateTopic("b", ((1,),) * 11),
            CreateTopic("B", ((1,),)),
            CreateTopic("a-1", ((1,),)),
            CreateTopic("a", ((1,), (1,))),
            CreateTopic("a_b", ((1,),)),
            Run(
                VERIFY,
                plan(
                    *(("b", n, (2,)) for n in (10, 2, 1)),
                    *(("a", 1, (2,)), ("a-1", 0, (2,)), ("B", 0, (2,)), ("a_b", 0, (3,))),
                ),
            ),
            Run(f"{EXECUTE} --throttle 5000"),
            Settle(),
            Run(f"{VERIFY} --preserve-throttles"),
        ),
    ),
)

_THROTTLES = (
    Flow(
        name="a throttle is set, seen while the move lasts, raised, and removed in the end",
        steps=(*_SLOW_MOVE, Run(VERIFY), *_LET_GO),
        in_every_run=True,
    ),
    Flow(
        name="throttles are preserved once, and then removed",
        steps=(
            *(_ORDERS, Run(f"{EXECUTE} --throttle 5000000", _MOVE), Settle()),
            *(Run(f"{VERIFY} --preserve-throttles"), Run(VERIFY), Run(VERIFY)),
        ),
    ),
    Flow(
        name="a throttle is lowered midway",
        steps=(
            *(_FULL, Run(f"{EXECUTE} --throttle 2000", _MOVE)),
            *(Run(f"{EXECUTE} --additional {SLOW}"), Run(VERIFY), *_LET_GO),
        ),
    ),
    Flow(
        name="submitted again without a throttle, a move keeps the one it has",
        steps=(*_SLOW_MOVE, Run(f"{EXECUTE} --additional"), Run(VERIFY), *_LET_GO),
    ),
    Flow(
        name="a throttle of -1 changes no throttle midway",
        steps=(*_SLOW_MOVE, Run(f"{EXECUTE} --additional --throttle -1"), *_LET_GO),
    ),
    Flow(
        name="a throttle of 0 is accepted",
        steps=(_FULL, Run(f"{EXECUTE} --throttle 0", _MOVE), Run(VERIFY), *_LET_GO),
    ),
    Flow(
        name="a throttle between log dirs is set without log dirs",
        steps=(
            *(_ORDERS, Run(f"{EXECUTE} --replica-alter-log-dirs-throttle 5000", _MOVE)),
            *(Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="lists of throttled replicas that others have set are overwritten",
        steps=(
            _ORDERS,
            Set("topic", "orders", LEADER_REPLICAS, "*"),
            Set("topic", "orders", FOLLOWER_REPLICAS, "1:1,1:2"),
            Run(f"{EXECUTE} --throttle 5000000", _MOVE),
            Settle(),
            Run(VERIFY),
        ),
    ),
    Flow(
        name="throttles that others have set are removed by --verify",
        steps=(
            _ORDERS,
            Set("broker", "1", LEADER_RATE, "777"),
            Set("broker", "2", LOG_DIR_RATE, "888"),
            Set("broker", "3", FOLLOWER_RATE, "999"),
            Set("topic", "orders", LEADER_REPLICAS, "*"),
            Run(f"{VERIFY} --preserve-throttles", _MOVE),
            Run(VERIFY),
        ),
        in_every_run=True,
    ),
    Flow(
        name="throttles of another topic remain when --verify removes the brokers' rates",
        steps=(
            _ORDERS,
            CreateTopic("payments", ((1,),)),
            Set("broker", "1", LEADER_RATE, "777"),
            Set("topic", "payments", LEADER_REPLICAS, "0:1"),
            Run(VERIFY, _MOVE),
        ),
    ),
    Flow(
        name="a throttled move of some partitions replaces the lists of the topic's others",
        steps=(
            *_SLOW_MOVE,
            Run(f"{EXECUTE} --additional {SLOW}", plan(("orders", 1, (2, 3)))),
            Run(LIST),
            Run(VERIFY),
            Run(VERIFY, _MOVE),
        ),
    ),
)

_SEVERAL = (
    Flow(
        name="a second reassignment is refused while one is under way",
        steps=(
            *(*_SLOW_MOVE, Run(EXECUTE, plan(("orders", 1, (2, 3)))), Run(LIST)),
            *(Run(VERIFY), Run(VERIFY, _MOVE)),
        ),
        in_every_run=True,
    ),
    Flow(
        name="a reassignment is refused while another program's is under way",
        steps=(
            *(_FULL, CreateTopic("payments", ((1,),))),
            Set("broker", "3", FOLLOWER_RATE, "1000"),
            Set("topic", "orders", FOLLOWER_REPLICAS, "0:3"),
            Reassign("orders", 0, (3, 2)),
            *(Run(EXECUTE, plan(("payments", 0, (2,)))), Run(LIST)),
        ),
    ),
    Flow(
        name="a second topic is moved beside the first",
        steps=(
            *(*_SLOW_MOVE, CreateTopic("payments", ((1,), (2,)), DATA)),
            Run(f"{EXECUTE} --additional {SLOW}", plan(("payments", 0, (2,)))),
            Run(VERIFY),
            Run(VERIFY, _MOVE),
            *_LET_GO,
            Run(VERIFY, plan(("payments", 0, (2,)))),
        ),
    ),
    Flow(
        name="a second topic is moved beside the first, without a throttle",
        steps=(
            *(*_SLOW_MOVE, CreateTopic("payments", ((1,),))),
            Run(f"{EXECUTE} --additional", plan(("payments", 0, (2,)))),
            Settle("payments"),
            Run(f"{VERIFY} --preserve-throttles"),
            Run(VERIFY),
        ),
    ),
    Flow(
        name="a partition that moves gets another target",
        steps=(
            *_SLOW_MOVE,
            Run(f"{EXECUTE} --additional {FAST}", plan(("orders", 0, (1, 3)))),
            Settle(),
            Run(VERIFY),
            Run(VERIFY, _MOVE),
        ),
    ),
    Flow(
        name="the printed plan of a partition that moves has all its replicas",
        steps=(
            *(*_SLOW_MOVE, Run(f"{EXECUTE} --additional {SLOW}")),
            Run(f"{EXECUTE} --additional {FAST}", PRINTED_PLAN),
            *(Settle(), Run(f"{VERIFY} --preserve-throttles")),
        ),
    ),
    Flow(
        name="--verify removes no throttle while another program moves a partition",
        steps=(
            *(_FULL, CreateTopic("payments", ((1,),))),
            Set("broker", "3", FOLLOWER_RATE, "1000"),
            Set("topic", "orders", FOLLOWER_REPLICAS, "0:3"),
            Reassign("orders", 0, (3, 2)),
            Run(f"{EXECUTE} --additional {SLOW}", plan(("payments", 0, (2,)))),
            Settle("payments"),
            Run(VERIFY),
            Reassign("orders", 0, None),
            Settle(),
            Run(VERIFY),
        ),
    ),
)

_CANCELS = (
    Flow(
        name="a move is cancelled, and its throttles are removed",
        steps=(*_SLOW_MOVE, Run(CANCEL), Run(LIST), Run(VERIFY)),
        in_every_run=True,
    ),
    Flow(
        name="a move is cancelled with its throttles preserved, and cancelled again",
        steps=(
            *(
                *_SLOW_MOVE,
                Run(f"{CANCEL} --preserve-throttles"),
                Run(VERIFY + " --preserve-throttles"),
            ),
            Run(CANCEL),
        ),
    ),
    Flow(
        name="several partitions are cancelled at once",
        steps=(_FULL, Run(f"{EXECUTE} {SLOW}", _MOVE_BOTH), Run(LIST), Run(CANCEL), Run(LIST)),
    ),
    Flow(
        name="one of two partitions is cancelled",
        steps=(
            *(_FULL, Run(f"{EXECUTE} {SLOW}", _MOVE_BOTH)),
            *(Run(f"{CANCEL} --preserve-throttles", _MOVE), Run(LIST)),
            *(Run(VERIFY, _MOVE_BOTH), Run(CANCEL), Run(VERIFY)),
        ),
    ),
    Flow(
        name="the growth of a replication factor is cancelled",
        steps=(_FULL, Run(f"{EXECUTE} {SLOW}", _GROW), Run(LIST), Run(CANCEL), Run(VERIFY)),
    ),
    Flow(
        name="a cancel takes the partitions of its plan, whatever their replicas",
        steps=(
            *_SLOW_MOVE,
            Run(f"{CANCEL} {_IMPATIENT}", plan(("orders", 0, ()), ("orders", 1, (9, 9)))),
        ),
    ),
    Flow(
        name="a cancel removes the throttles of moves that go on",
        steps=(
            *(*_SLOW_MOVE, CreateTopic("payments", ((1,),))),
            *(Run(CANCEL, plan(("payments", 0, (2,)))), Settle()),
        ),
    ),
    Flow(
        name="a move is listed and cancelled by a controller",
        steps=(
            *_SLOW_MOVE,
            Run("--bootstrap-controller {controller} --list"),
            Run(f"--bootstrap-controller {{controller}} --cancel {_PLAN} --preserve-throttles"),
            Run("--bootstrap-controller {controller} --list"),
        ),
    ),
    Flow(
        name="a cancel by a controller removes throttles",
        steps=(*_SLOW_MOVE, Run(f"--bootstrap-controller {{controller}} --cancel {_PLAN}")),
    ),
    Flow(
        name="a move in another program's hands is cancelled",
        steps=(
            _FULL,
            Set("broker", "3", FOLLOWER_RATE, "1000", of_plan=True),
            Set("topic", "orders", FOLLOWER_REPLICAS, "0:3", of_plan=True),
            Reassign("orders", 0, (3, 2)),
            Run(CANCEL, _MOVE),
            Run(LIST),
        ),
    ),
)

_GUARDED = f"{EXECUTE} --disallow-replication-factor-change"
_FACTORS = (
    Flow(
        name="a changed replication factor is refused",
        steps=(
            _ORDERS,
            Run(_GUARDED, plan(("orders", 1, (2,)), ("orders", 0, (1, 2, 3)))),
            Run(VERIFY),
        ),
        in_every_run=True,
    ),
    Flow(
        name="a kept replication factor passes the guard",
        steps=(_ORDERS, Run(_GUARDED, _MOVE), Settle(), Run(VERIFY)),
    ),
    Flow(
        name="of two partitions one is refused by the guard, and the other is moved",
        steps=(
            *(_ORDERS, Run(_GUARDED, plan(("orders", 0, (3, 2)), ("orders", 1, (2, 1, 3))))),
            *(Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="a refusal by the guard leaves the throttle that was set for it",
        steps=(_ORDERS, Run(f"{_GUARDED} --throttle 5000", _GROW), Run(LIST), Run(VERIFY)),
    ),
    Flow(
        name="the guard counts a partition that moves by its target",
        steps=(
            *(*_SLOW_MOVE, Run(f"{_GUARDED} --additional", plan(("orders", 0, (1, 3))))),
            Run(f"{_GUARDED} --additional", plan(("orders", 0, (1, 2, 3)))),
        ),
    ),
)

_DEAD = (Kill(3),)
_THREE = CreateTopic("orders", ((1, 2), (3, 1)))
_DEAD_BROKERS = (
    Flow(
        name="a dead broker is an unknown target",
        steps=(
            *(_THREE, *_DEAD, Run(EXECUTE, _MOVE), Run(f"{VERIFY} {_IMPATIENT}")),
            *(Restart(3), Run(VERIFY)),
        ),
    ),
    Flow(
        name="a dead broker is replaced without a throttle",
        steps=(
            *(_THREE, *_DEAD, Run(EXECUTE, plan(("orders", 1, (2, 1)))), Settle()),
            Run(f"{VERIFY} --preserve-throttles"),
            Run(VERIFY),
        ),
    ),
    Flow(
        name="a dead broker is not replaced with a throttle",
        steps=(
            *(_THREE, *_DEAD),
            Run(f"{EXECUTE} --throttle 5000 {_IMPATIENT}", plan(("orders", 1, (2, 1)))),
            Run(LIST),
        ),
    ),
    Flow(
        name="a broker dies while it receives a replica",
        steps=(
            *(*_SLOW_MOVE, *_DEAD, Run(LIST), Run(VERIFY), Run(f"{CANCEL} --preserve-throttles")),
            *(Run(f"{VERIFY} {_IMPATIENT}"), Restart(3), Run(VERIFY)),
        ),
    ),
    Flow(
        name="a broker dies, and the cancel cannot remove its throttle",
        steps=(*_SLOW_MOVE, *_DEAD, Run(f"{CANCEL} {_IMPATIENT}"), Run(LIST)),
    ),
    Flow(
        name="a proposal is made while a broker is dead",
        steps=(
            *(_THREE, *_DEAD, Run(f"{GENERATE} 1,2", topics("orders"))),
            Run(f"{GENERATE} 1,2,3", topics("orders")),
            Run(f"{GENERATE} 3", topics("orders")),
        ),
    ),
    Flow(
        name="nothing is being reassigned while a broker is dead",
        steps=(_THREE, *_DEAD, Run(LIST), Run(VERIFY, plan(("orders", 0, (1, 2))))),
    ),
)

_PROPOSALS = (
    Flow(
        name="a proposal is executed",
        steps=(
            CreateTopic("orders", ((1,), (1,), (3,))),
            Run(f"{GENERATE} 2", topics("orders")),
            Run(EXECUTE, PRINTED_PLAN),
            Settle(),
            Run(VERIFY),
        ),
        in_every_run=True,
    ),
    Flow(
        name="proposals for several topics, with racks and without",
        steps=(
            *(_ORDERS, CreateTopic("payments", ((1, 2, 3),) * 4), CreateTopic("a", ((3,),))),
            Run(f"{GENERATE} 1,2,3", topics("orders", "payments", "a")),
            Run(f"{GENERATE} 1,2,3 --disable-rack-aware"),
            Run(f"{GENERATE} 1,2"),
        ),
    ),
    Flow(
        name="a proposal for a topic that moves counts all its replicas",
        steps=(*_SLOW_MOVE, Run(f"{GENERATE} 1,2,3", topics("orders"))),
    ),
)

_BAD_PLANS = (
    Flow(
        name="a plan that cannot be read changes nothing",
        steps=(
            _ORDERS,
            Run(f"{_ON} --execute --reassignment-json-file cut-off.json --throttle 5000"),
            Run(f"{_ON} --verify --reassignment-json-file cut-off.json"),
            Run(f"{_ON} --cancel --reassignment-json-file cut-off.json"),
            Run(LIST),
        ),
    ),
    Flow(
        name="one unknown partition of several stops all",
        steps=(
            _ORDERS,
            Run(f"{EXECUTE} --throttle 5000", plan(("orders", 0, (3, 2)), ("orders", 7, (1, 2)))),
            Run(VERIFY, plan(("orders", 0, (3, 2)), ("nothing", 0, (1,)), ("orders", 7, (1, 2)))),
        ),
    ),
    Flow(
        name="one unknown broker of several stops all",
        steps=(_ORDERS, Run(f"{EXECUTE} --throttle 5000", plan(("orders", 0, (3, 9))))),
    ),
    Flow(
        name="a topic is deleted between --execute and --verify",
        steps=(_ORDERS, Run(VERIFY, plan(("gone", 0, (3, 2)), ("orders", 0, (1, 2))))),
    ),
)

_ONE_DIR = (
    Flow(
        name="a log dir that a broker does not have is refused",
        steps=(
            *(_ORDERS, Run(EXECUTE, plan(("orders", 0, (1, 2), ("/no/such/dir", "any"))))),
            *(Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="the log dir in which a replica is already",
        steps=(
            *(_ORDERS, Run(EXECUTE, plan(("orders", 0, (1, 2), ("{dir:1}", "{dir:2}"))))),
            *(Settle(), Run(VERIFY), Run(CANCEL)),
        ),
    ),
    Flow(
        name="the log dir of a replica that is not there yet",
        steps=(
            *(_ORDERS, Run(VERIFY, plan(("orders", 0, (3, 2), ("{dir:3}", "any"))))),
            *(Run(EXECUTE), Settle(), Run(VERIFY)),
        ),
    ),
    Flow(
        name="the printed plan goes back with its log dirs",
        steps=(
            *(_ORDERS, Run(EXECUTE, plan(("orders", 0, (3, 2)))), Settle()),
            *(Run(EXECUTE, plan(("orders", 0, (1, 2), ("{dir:1}", "any")))), Settle()),
            Run(VERIFY),
        ),
    ),
    Flow(
        name="log dirs cannot be cancelled by a controller",
        steps=(
            _ORDERS,
            Run(
                f"--bootstrap-controller {{controller}} --cancel {_PLAN}",
                plan(("orders", 0, (1, 2), ("{dir:1}", "any"))),
            ),
        ),
    ),
)


def _as(user: str) -> str:
    return f"--command-config {{user:{user}}}"


_SMALL = CreateTopic("orders", ((1,), (2,)))
_SMALL_MOVE = plan(("orders", 0, (2,)))
_SECURED = tuple(
    Flow(name=f"on a secured cluster, {name}", where=Where.SECURED, steps=steps)
    for name, steps in (
        (
            "an administrator moves a partition with a throttle",
            (
                *(_SMALL, Run(f"{EXECUTE} {_as('admin')} --throttle 5000000", _SMALL_MOVE)),
                *(Settle(), Run(f"{VERIFY} {_as('admin')}")),
            ),
        ),
        (
            "one who may only look is refused a reassignment",
            (_SMALL, Run(f"{EXECUTE} {_as('viewer')}", _SMALL_MOVE)),
        ),
        (
            "one who may only look is refused a throttle",
            (_SMALL, Run(f"{EXECUTE} {_as('viewer')} --throttle 5000", _SMALL_MOVE)),
        ),
        (
            "one who may only look verifies, and is refused the removal of throttles",
            (
                *(_SMALL, Run(f"{VERIFY} {_as('viewer')} --preserve-throttles", _SMALL_MOVE)),
                Run(f"{VERIFY} {_as('viewer')}"),
            ),
        ),
        (
            "one who may only look lists and proposes",
            (
                *(_SMALL, Run(f"{LIST} {_as('viewer')}")),
                Run(f"{GENERATE} 2 {_as('viewer')}", topics("orders")),
            ),
        ),
        (
            "one who may only look is refused a cancel",
            (
                CreateTopic("orders", ((1,), (2,)), DATA),
                Run(f"{EXECUTE} {_as('admin')} {SLOW}", _SMALL_MOVE),
                Run(f"{CANCEL} {_as('viewer')}"),
                Run(f"{LIST} {_as('viewer')}"),
            ),
        ),
        (
            "one without permissions is refused every action",
            (
                *(_SMALL, Run(f"{LIST} {_as('nobody')}")),
                *(Run(f"{VERIFY} {_as('nobody')}", _SMALL_MOVE), Run(f"{EXECUTE} {_as('nobody')}")),
                Run(f"{CANCEL} {_as('nobody')}"),
                Run(f"{GENERATE} 2 {_as('nobody')}", topics("orders")),
            ),
        ),
        ("a wrong password is refused", (_SMALL, Run(f"{LIST} --command-config wrong.properties"))),
    )
)

_OTHER_DIR = plan(("orders", 0, (1, 2), ("{dir:1}-2", "any")))
_SLOW_DIRS = "--replica-alter-log-dirs-throttle 1"
_BETWEEN_DIRS = tuple(
    Flow(name=f"with two log dirs, {name}", where=Where.LOG_DIRS, steps=steps)
    for name, steps in (
        (
            "a replica is moved from one to the other",
            (
                _ORDERS,
                PutInFirstDirs("orders"),
                Run(VERIFY, _OTHER_DIR),
                Run(EXECUTE),
                SettleDirs(),
                Run(VERIFY),
            ),
        ),
        (
            "a slow move is seen, let go and completed",
            (
                *(
                    _FULL,
                    PutInFirstDirs("orders"),
                    Run(f"{EXECUTE} {_SLOW_DIRS}", _OTHER_DIR),
                    Run(VERIFY),
                ),
                Run(f"{EXECUTE} --additional --replica-alter-log-dirs-throttle 1000000000"),
                SettleDirs(),
                Run(VERIFY),
            ),
        ),
        (
            "a slow move is cancelled, and cancelled again",
            (
                *(_FULL, PutInFirstDirs("orders"), Run(f"{EXECUTE} {_SLOW_DIRS}", _OTHER_DIR)),
                *(Run(f"{CANCEL} --preserve-throttles"), Run(VERIFY), Run(CANCEL)),
            ),
        ),
        (
            "a slow move is on the way to another one than the plan's",
            (
                *(_FULL, PutInFirstDirs("orders"), Run(f"{EXECUTE} {_SLOW_DIRS}", _OTHER_DIR)),
                Run(VERIFY, plan(("orders", 0, (1, 2), ("{dir:1}", "any")))),
            ),
        ),
        (
            "a replica moves between brokers into the second",
            (
                *(
                    _ORDERS,
                    PutInFirstDirs("orders"),
                    Run(EXECUTE, plan(("orders", 0, (3, 2), ("{dir:3}-2", "any")))),
                ),
                *(Settle(), SettleDirs(), Run(VERIFY)),
            ),
        ),
        (
            "a replica moves between brokers and another between log dirs",
            (
                *(_FULL, PutInFirstDirs("orders")),
                Run(
                    f"{EXECUTE} {SLOW} {_SLOW_DIRS}",
                    plan(("orders", 0, (3, 2), ("any", "{dir:2}-2")), ("orders", 1, (2, 1))),
                ),
                *(Run(VERIFY), Run(CANCEL), Run(VERIFY)),
            ),
        ),
    )
)

FLOWS: tuple[Flow, ...] = (
    *_COMPLETE,
    *_THROTTLES,
    *_SEVERAL,
    *_CANCELS,
    *_FACTORS,
    *_DEAD_BROKERS,
    *_PROPOSALS,
    *_BAD_PLANS,
    *_ONE_DIR,
    *_SECURED,
    *_BETWEEN_DIRS,
)
