"""Argument lists for kafka-reassign-partitions and `ktui reassign`.

They run in a folder with the files of `FILES`. Lists that need a cluster name its brokers as
`{server}` and its controller as `{controller}`; each of them finds the topics of `TOPICS` in place,
and no throttle.
"""

import itertools
import json
import shlex
from collections.abc import Iterator, Mapping

import msgspec

NOWHERE = "127.0.0.1:1"  # an address at which nothing listens
_AT = f"--bootstrap-server {NOWHERE}"
_ON = "--bootstrap-server {server}"
_MOVE = "--reassignment-json-file plan.json"
_PROPOSE = "--topics-to-move-json-file topics.json --broker-list 1,2"

TOPICS: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "orders": ((1, 2), (2, 3), (3, 1)),
    "single": ((1,), (1,)),
}
"""The replicas of each partition that lists with a cluster find."""

_ACTIONS = {"generate": _PROPOSE, "execute": _MOVE, "verify": _MOVE, "cancel": _MOVE, "list": ""}
"""The actions of Apache's tool, and what each needs."""
_OPTIONS = {
    "bootstrap-controller": "{controller}",
    "command-config": "empty.properties",
    "reassignment-json-file": "plan.json",
    "topics-to-move-json-file": "topics.json",
    "broker-list": "1,2",
    "disable-rack-aware": None,
    "throttle": "1000000",
    "replica-alter-log-dirs-throttle": "1000000",
    "timeout": "5000",
    "additional": None,
    "preserve-throttles": None,
    "disallow-replication-factor-change": None,
}
"""The other options of Apache's tool, each with a value that it accepts; None for a flag."""
_PERMITTED = {
    "generate": {"command-config", "disable-rack-aware"},
    "execute": {
        *("command-config", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
        *("additional", "disallow-replication-factor-change"),
    },
    "verify": {"command-config", "preserve-throttles"},
    "cancel": {"command-config", "preserve-throttles", "timeout"},
    "list": {"command-config"},
}


class ArgumentList(msgspec.Struct, frozen=True):
    """The words behind the name of the program."""

    words: tuple[str, ...]
    needs_cluster: bool = False

    @property
    def name(self) -> str:
        """The words as a shell has them."""
        return shlex.join(self.words)


def argument_lists() -> tuple[ArgumentList, ...]:
    without = (_as_list(line, needs_cluster=False) for line in _lines_without_cluster())
    with_one = (_as_list(line, needs_cluster=True) for line in _lines_on_a_cluster())
    return tuple({each.words: each for each in (*without, *with_one)}.values())


def _as_list(line: str, *, needs_cluster: bool) -> ArgumentList:
    return ArgumentList(tuple(shlex.split(line)), needs_cluster)


def _lines_without_cluster() -> Iterator[str]:
    yield from _HELP_AND_VERSION
    yield from _SPELLINGS
    yield from _CLUSTERS
    yield from _combined_actions()
    yield from _missing_options()
    yield from _refused_options()
    yield from _bad_values()
    yield from _bad_files()


_HELP_AND_VERSION = (
    *("", "' '", "''", "--", "-"),
    *("--help", "-help", "--help=yes", "--version", "-version"),
    *("--help --version", "--version --help", "--version --list", "--help --list"),
    *("--help --bogus", "--version --throttle", "--version extra words"),
)

_SPELLINGS = (
    *("--bogus", "--bogus=5", "-bogus", "--LIST", "-LIST", "--lis", "---list", "-l"),
    *("--=x", "-=x", "--list -x", f"{_AT} --list --verbose"),
    *("list", f"list {_AT}", f"{_AT} execute"),
    *("--throttle", "--list --timeout", "--broker-list", "--command-config"),
    f"{_AT} --verify --reassignment-json-file",
    f"{_AT} --execute --reassignment-json-file --additional",
    f"{_AT} --execute --reassignment-json-file=--additional",
    f"-bootstrap-server {NOWHERE} -verify -reassignment-json-file missing.json",
    f"--bootstrap-server={NOWHERE} --verify --reassignment-json-file=missing.json",
    f"{_AT} --verify --verify --reassignment-json-file missing.json",
    f"{_AT} --verify=yes --reassignment-json-file missing.json",
    f"{_AT} --verify --preserve-throttles=false --reassignment-json-file missing.json",
    f"{_AT} some words --verify --reassignment-json-file missing.json and more",
    f"{_AT} --verify --reassignment-json-file missing.json -- --execute --bogus",
    f"-- {_AT} --list",
    *("--zookeeper localhost:2181 --list", f"{_AT} --zookeeper z:2181 --execute {_MOVE}"),
    *("--cancel-all", "--remove-cancel", "--progress", "--as-run", "--context prod"),
    *("--reassignment-batch-size 5", "--incremental", "--reassignment-poll-interval-ms 5"),
    *("--clear-foreign-throttles", "--state-dir d", "--take-over", "--no-ownership"),
)

_CLUSTERS = (
    *("--list", f"--execute {_MOVE}", f"--verify {_MOVE}", f"--cancel {_MOVE}"),
    f"--generate {_PROPOSE}",
    f"{_AT} --bootstrap-controller {NOWHERE} --list",
    f"--bootstrap-controller {NOWHERE} {_AT} --execute {_MOVE}",
    f"--bootstrap-controller {NOWHERE} --verify {_MOVE}",
    f"--bootstrap-controller {NOWHERE} --execute",
    "--bootstrap-server",
    "--bootstrap-server --list",
    "--list --bootstrap-server",
    "--list --bootstrap-controller",
    "--bootstrap-server= --list",
    f"{_AT} {_AT} --list",
    f"--bootstrap-server --bootstrap-server --list {_MOVE}",
    "--bootstrap-server nocolon --list",
    "--bootstrap-server localhost: --list",
    "--bootstrap-server localhost:port --list",
    "--bootstrap-server localhost:99999 --list",
    "--bootstrap-server localhost:-1 --list",
    "--bootstrap-server , --list",
    "--bootstrap-server ' ' --list",
    "--bootstrap-controller nocolon --list",
    f"{_AT} --command-config missing.properties --list",
    f"{_AT} --command-config folder --list",
    f"{_AT} --command-config '' --list",
    f"{_AT} --command-config bad-timeout.properties --list",
    f"{_AT} --command-config bad-protocol.properties --list",
    f"{_AT} --command-config controllers.properties --list",
    f"{_AT} --command-config empty.properties --command-config empty.properties --list",
)


def _combined_actions() -> Iterator[str]:
    yield _AT
    yield f"{_AT} {_MOVE}"
    for one, other in itertools.combinations(_ACTIONS, 2):
        yield f"{_AT} --{one} --{other} {_ACTIONS[one]} {_ACTIONS[other]}"
    yield f"{_AT} {' '.join(f'--{action}' for action in _ACTIONS)}"
    yield f"{_AT} --execute --execute"
    yield "--execute --verify --bogus"
    yield "--execute --verify --bootstrap-server a:1 --bootstrap-controller b:1"


def _missing_options() -> Iterator[str]:
    for action, needed in _ACTIONS.items():
        if needed:
            yield f"{_AT} --{action}"
    yield f"{_AT} --generate --broker-list 1,2"
    yield f"{_AT} --generate --topics-to-move-json-file topics.json"
    yield f"{_AT} --generate --throttle 5"
    yield f"{_AT} --execute --broker-list 1,2 --preserve-throttles"


def _refused_options() -> Iterator[str]:
    """Yield each action with each option that it does not permit."""
    for action, needed in _ACTIONS.items():
        for option in sorted(_OPTIONS.keys() - _PERMITTED[action]):
            if f"--{option} " not in needed and option != "bootstrap-controller":
                yield f"{_AT} --{action} {needed} {_option(option)}"
    for action in ("generate", "execute", "verify"):
        yield f"--bootstrap-controller {NOWHERE} --{action} {_ACTIONS[action]}"
    yield f"{_AT} --throttle 5 --verify --timeout 5 {_MOVE}"
    yield f"{_AT} --timeout 5 --verify --throttle 5 {_MOVE}"
    yield f"{_AT} --list --throttle abc"


_NO_NUMBERS = ("abc", "''", "' 5'", "1.5", "1e3", "0x10", "5B", "1_000", "9223372036854775808")
_REPEATED = ("throttle", "timeout", "replica-alter-log-dirs-throttle", "reassignment-json-file")


def _bad_values() -> Iterator[str]:
    for option in ("throttle", "replica-alter-log-dirs-throttle", "timeout"):
        for value in _NO_NUMBERS:
            yield f"{_AT} --execute {_MOVE} --{option} {value}"
    yield f"{_AT} --cancel {_MOVE} --timeout abc"
    yield f"{_AT} --execute {_MOVE} --timeout abc --throttle abc"
    yield f"{_AT} --execute --reassignment-json-file missing.json --throttle abc"
    for option in _REPEATED:
        yield f"{_AT} --execute {_MOVE} {_option(option)} {_option(option)}"
    yield f"{_AT} --execute {_MOVE} --throttle 5 --throttle abc"
    yield f"{_AT} --generate {_PROPOSE} --broker-list 3"
    yield f"{_AT} --generate {_PROPOSE} --topics-to-move-json-file topics.json"
    for brokers in _BAD_BROKER_LISTS:
        yield f"{_AT} --generate --topics-to-move-json-file topics.json --broker-list {brokers}"


_BAD_BROKER_LISTS = (
    *("''", "' '", ",1", "1,,2", "'1, 2'", "abc", "1;2", "1.0", "1-3"),
    *("2147483648", "-2147483649", "1,1", "2,5,2,5,1", "1,+1", "01,1"),
)


def _bad_files() -> Iterator[str]:
    for name in _BAD_PLANS:
        yield f"{_AT} --execute --reassignment-json-file {name}"
    for name in _BAD_FOR_EVERY_ACTION:
        for action in ("verify", "cancel"):
            yield f"{_AT} --{action} --reassignment-json-file {name}"
    for name in _BAD_TOPICS:
        yield f"{_AT} --generate --broker-list 1,2 --topics-to-move-json-file {name}"
    for name in ("missing.json", "folder", "''", "folder/plan.json"):
        for action in ("execute", "verify", "cancel"):
            yield f"{_AT} --{action} --reassignment-json-file {name}"
        yield f"{_AT} --generate --broker-list 1,2 --topics-to-move-json-file {name}"
    yield f"{_AT} --generate --broker-list 1,1 --topics-to-move-json-file missing.json"


def _lines_on_a_cluster() -> Iterator[str]:
    for action, permitted in _PERMITTED.items():
        yield f"{_ON} --{action} {_ACTIONS[action]}"
        for option in sorted(permitted):
            yield f"{_ON} --{action} {_ACTIONS[action]} {_option(option)}"
    yield from _OTHER_LISTS
    for name in _VERIFIED:
        yield f"{_ON} --verify --reassignment-json-file {name} {_patience(name)}"
    for name in _EXECUTED:
        yield f"{_ON} --execute --reassignment-json-file {name}"
    for name in _CANCELLED:
        yield f"{_ON} --cancel --reassignment-json-file {name} {_patience(name)}"
    yield from _EXECUTED_WITH_NUMBERS
    yield from _GENERATED


_OTHER_LISTS = (
    *(f"-list {_ON}", f"--list=anything {_ON}", f"--list --list {_ON}", f"--list {_ON} more words"),
    f"{_ON} --list -- --verify --bogus",
    "--bootstrap-server :1 --list --command-config impatient.properties",
    "--bootstrap-server={server} --list",
    "--bootstrap-server --bootstrap-server {server} --list",
    "--bootstrap-server {server}, --list",
    "--bootstrap-server ' {server} ' --list",
    f"--bootstrap-server {NOWHERE},{{server}} --list",
    "--bootstrap-controller {controller} --list",
    "--bootstrap-controller={controller} --list",
    f"--bootstrap-controller {{controller}} --cancel {_MOVE}",
    f"--bootstrap-controller {{controller}} --cancel {_MOVE} --preserve-throttles",
    "--bootstrap-controller {server} --list --command-config impatient.properties",
    "--bootstrap-server {controller} --list --command-config impatient.properties",
    f"{_ON} --list --command-config tls.properties",
    f"{_AT} --list --command-config impatient.properties",
    f"{_AT} --execute {_MOVE} --command-config impatient.properties",
    f"{_AT} --verify {_MOVE} --command-config impatient.properties",
    f"{_AT} --cancel {_MOVE} --command-config impatient.properties",
    f"{_AT} --generate {_PROPOSE} --command-config impatient.properties",
    "--bootstrap-controller 127.0.0.1:1 --list --command-config impatient.properties",
)

_EXECUTED_WITH_NUMBERS = tuple(
    f"{_ON} --execute {_MOVE} {numbers}"
    for numbers in (
        *("--throttle 0", "--throttle 1", "--throttle -1", "--throttle +5", "--throttle 007"),
        *("--throttle=-5", "--throttle 9223372036854775807", "--throttle -9223372036854775808"),
        "--throttle 5 --replica-alter-log-dirs-throttle 7",
        "--replica-alter-log-dirs-throttle 0",
        "--replica-alter-log-dirs-throttle -1",
        *("--timeout 0", "--timeout -1", "--additional=true --additional"),
        "--disallow-replication-factor-change --throttle 5",
        "--throttle 5 --throttle 5",
    )
)

_GENERATED = tuple(
    f"{_ON} --generate --topics-to-move-json-file {topics} --broker-list {brokers}"
    for topics, brokers in (
        ("single.json", "2"),
        ("single.json", "2,"),
        ("single.json", "2,9"),
        ("single.json", "+3"),
        ("single.json", "1,2,3"),
        ("topics.json", "1,2,3"),
        ("topics.json", "1"),
        ("topics.json", "9"),
        ("topics.json", ","),
        ("topics.json", "-2"),
        ("two-topics.json", "1,2,3"),
        ("no-topics.json", "1"),
        ("topics-missing.json", "1"),
        ("unknown-topic.json", "1,2"),
        ("empty-topic.json", "1,2"),
        ("invalid-topic.json", "1,2"),
        ("topics-extra-keys.json", "1,2"),
    )
)


def _patience(plan: str) -> str:
    """Wait less where the tool waits for a broker that does not exist."""
    return "--command-config impatient.properties" if "broker" in plan else ""


def _option(name: str) -> str:
    value = _OPTIONS[name]
    return f"--{name}" if value is None else f"--{name} {value}"


def _plan(*rows: object, **more: object) -> str:
    return json.dumps({"version": 1, "partitions": rows, **more})


def _row(topic: object, partition: object, replicas: object, **more: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": replicas, **more}


_BAD_PLANS: Mapping[str, str | bytes] = {
    "empty.json": "",
    "blanks.json": " \n\t ",
    "words.json": "hello",
    "yaml.json": "version: 1\npartitions: []\n",
    "single-quotes.json": "{'version': 1}",
    "unquoted-key.json": "{version: 1}",
    "cut-off.json": '{"version": 1, "partitions": [',
    "cut-off-key.json": '{"vers',
    "cut-off-word.json": '{"version": tru',
    "second-line.json": '{"version": 1,\n  "partitions": [}\n',
    "trailing-comma.json": '{"version": 1, "partitions": [],}',
    "comma-in-list.json": '{"version": 1, "partitions": [1,]}',
    "missing-comma.json": '{"version": 1 "partitions": []}',
    "missing-colon.json": '{"version" 1}',
    "comment.json": '/* a plan */ {"version": 1, "partitions": []}',
    "nan.json": '{"version": NaN}',
    "infinity.json": '{"version": -Infinity}',
    "leading-zero.json": '{"version": 01}',
    "plus-sign.json": '{"version": +1}',
    "bad-escape.json": '{"version\\x": 1}',
    "control-character.json": '{"version\n": 1}',
    "nul.json": "\0",
    "python-constant.json": '{"version": True}',
    "closed-twice.json": "]",
    "deep.json": "[" * 2_000,
    "long-number.json": '{"version": ' + "1" * 1_001 + "}",
    "byte-order-mark.json": '\N{ZERO WIDTH NO-BREAK SPACE}{"version": 1, "partitions": []}',
    "utf-16.json": '{"version": 1}'.encode("utf-16"),
    "latin-1.json": '{"version": 1, "partitions": [], "caf\xe9": 1}'.encode("latin-1"),
    "more-text.json": '{"version": 1, "partitions": []} and more',
    "two-documents.json": '{"version": 1, "partitions": []}{"version": 2}',
    "repeated-key.json": '{"version": 2, "version": 1, "partitions": []}',
    "more-keys.json": '{"version": 1, "owner": {"name": "me"}, "partitions": []}',
    "array.json": "[]",
    "number.json": "5",
    "null.json": "null",
    "string.json": '"plan"',
    "true.json": "true",
    "version-2.json": '{"version": 2, "partitions": []}',
    "version-0.json": '{"version": 0}',
    "version-text.json": '{"version": "1"}',
    "version-null.json": '{"version": null}',
    "version-fraction.json": '{"version": 1.0}',
    "version-large.json": '{"version": 99999999999}',
    "no-keys.json": "{}",
    "no-partitions.json": '{"version": 1}',
    "no-version.json": '{"partitions": []}',
    "partitions-null.json": '{"version": 1, "partitions": null}',
    "partitions-object.json": '{"version": 1, "partitions": {}}',
    "partitions-number.json": '{"version": 1, "partitions": 1}',
    "partitions-text.json": '{"version": 1, "partitions": "[]"}',
    "no-rows.json": _plan(),
    "row-number.json": _plan(1),
    "row-array.json": _plan([]),
    "row-null.json": _plan(None),
    "row-empty.json": _plan({}),
    "row-only-topic.json": _plan({"topic": "orders"}),
    "row-only-partition.json": _plan({"partition": 0}),
    "row-without-replicas.json": _plan({"topic": "orders", "partition": 0}),
    "row-in-capitals.json": _plan({"Topic": "orders", "partition": 0, "replicas": [1]}),
    "second-row-bad.json": _plan(_row("orders", 0, [1]), {"topic": "orders"}),
    "topic-number.json": _plan(_row(1, 0, [1])),
    "topic-null.json": _plan(_row(None, 0, [1])),
    "topic-array.json": _plan(_row(["orders"], 0, [1])),
    "partition-text.json": _plan(_row("orders", "0", [1])),
    "partition-null.json": _plan(_row("orders", None, [1])),
    "partition-fraction.json": _plan(_row("orders", 0.0, [1])),
    "partition-large.json": _plan(_row("orders", 9999999999, [1])),
    "partition-true.json": _plan(_row("orders", json.loads("true"), [1])),
    "replicas-number.json": _plan(_row("orders", 0, 1)),
    "replicas-null.json": _plan(_row("orders", 0, None)),
    "replicas-object.json": _plan(_row("orders", 0, {"1": 2})),
    "replicas-text.json": _plan(_row("orders", 0, "1,2")),
    "replica-text.json": _plan(_row("orders", 0, [1, "2"])),
    "replica-null.json": _plan(_row("orders", 0, [None])),
    "replica-fraction.json": _plan(_row("orders", 0, [1.5])),
    "replica-large.json": _plan(_row("orders", 0, [2147483648])),
    "replica-array.json": _plan(_row("orders", 0, [[1], 2])),
    "log-dirs-text.json": _plan(_row("orders", 0, [1], log_dirs="any")),
    "log-dirs-null.json": _plan(_row("orders", 0, [1], log_dirs=None)),
    "log-dir-number.json": _plan(_row("orders", 0, [1], log_dirs=[1])),
    "log-dir-null.json": _plan(_row("orders", 0, [1], log_dirs=[None])),
    "log-dirs-few.json": _plan(_row("orders", 0, [1, 2], log_dirs=["any"])),
    "log-dirs-many.json": _plan(_row("orders", 0, [1], log_dirs=["any", "/d"])),
    "log-dirs-none.json": _plan(_row("orders", 0, [1], log_dirs=[])),
    "no-replicas.json": _plan(_row("orders", 0, [])),
    "no-replicas-twice.json": _plan(_row("orders", 0, []), _row("orders", 0, [])),
    "partition-twice.json": _plan(_row("orders", 0, [1]), _row("orders", 0, [2])),
    "partitions-twice.json": _plan(
        *(_row(topic, number, [1]) for topic in ("orders", "b") for number in (10, 2) * 2)
    ),
    "partition-and-replica-twice.json": _plan(_row("a", 0, [1, 1]), _row("a", 0, [1])),
    "replica-twice.json": _plan(_row("orders", 0, [1, 2, 1])),
    "replicas-twice.json": _plan(
        _row("orders", 1, [2, 1, 1, 2]), _row("orders", 0, [1, 2]), _row("b", 0, [3, 3, 3])
    ),
    "replica-negative-twice.json": _plan(_row("orders", 0, [-1, -1])),
    "hostile-topic-twice.json": _plan(*[_row("a\nb\x1b[2J", 0, [1])] * 2),
    "foreign-topic-twice.json": _plan(*[_row("caf\xe9", 0, [1])] * 2),
}
"""Reassignment files that --execute refuses without a cluster."""

_BAD_FOR_EVERY_ACTION = (
    *("empty.json", "blanks.json", "words.json", "cut-off.json", "array.json", "version-2.json"),
    *("row-empty.json", "topic-number.json", "replica-text.json", "log-dirs-few.json"),
)

_BAD_TOPICS: Mapping[str, str] = {
    "topics-empty.json": "",
    "topics-blanks.json": "  ",
    "topics-words.json": "orders, payments",
    "topics-cut-off.json": '{"topics": [',
    "topics-array.json": '["orders"]',
    "topics-null.json": "null",
    "topics-version-2.json": '{"version": 2, "topics": []}',
    "topics-version-text.json": '{"version": "1", "topics": []}',
    "topics-object.json": '{"topics": {}}',
    "topics-of-names.json": '{"topics": ["orders"]}',
    "topics-row-empty.json": '{"topics": [{}]}',
    "topics-row-number.json": '{"topics": [{"topic": 1}]}',
    "topics-row-null.json": '{"topics": [{"topic": null}]}',
    "topics-twice.json": '{"topics": [{"topic": "a"}, {"topic": "b"}, {"topic": "a"}]}',
}
"""Files of topics that --generate refuses without a cluster."""

_EXECUTED: Mapping[str, str] = {
    "unknown-topic-plan.json": _plan(_row("nothing", 0, [1, 2])),
    "unknown-partition.json": _plan(_row("orders", 7, [1, 2])),
    "next-partition.json": _plan(_row("orders", 3, [1, 2])),
    "unknown-broker.json": _plan(_row("orders", 0, [1, 9])),
    "negative-broker.json": _plan(_row("orders", 0, [1, -1])),
    "negative-partition.json": _plan(_row("orders", -1, [1, 2])),
    "empty-name.json": _plan(_row("", 0, [1, 2])),
    "invalid-name.json": _plan(_row("a b", 0, [1, 2])),
    "hostile-name.json": _plan(_row("a\nb\x1b[2J", 0, [1, 2])),
    "all-in-place.json": _plan(
        *(_row("orders", n, list(replicas)) for n, replicas in enumerate(TOPICS["orders"]))
    ),
    "two-topics-in-place.json": _plan(
        _row("single", 1, [1]), _row("orders", 1, [2, 3]), _row("orders", 0, [1, 2])
    ),
    "more-keys-in-place.json": _plan(_row("orders", 0, [1, 2], owner="me"), owner="me"),
    "any-dirs.json": _plan(_row("orders", 0, [1, 2], log_dirs=["any", "any"])),
    "unknown-dir.json": _plan(_row("orders", 0, [1, 2], log_dirs=["/no/such/dir", "any"])),
    "relative-dir.json": _plan(_row("orders", 0, [1, 2], log_dirs=["Any", "any"])),
}
"""Reassignment files that --execute refuses only with a cluster, or that move nothing."""

_VERIFIED: Mapping[str, str] = {
    **_EXECUTED,
    "other-order.json": _plan(_row("orders", 0, [2, 1])),
    "elsewhere.json": _plan(_row("orders", 0, [3])),
    "all-elsewhere.json": _plan(
        *(_row("single", n, [2]) for n in (1, 0)), *(_row("orders", n, [3]) for n in (2, 0))
    ),
    "row-twice.json": _plan(_row("orders", 0, [3]), _row("orders", 0, [1, 2])),
    "unknown-to-verify.json": _plan(_row("nothing", 0, [1]), _row("orders", 7, [1])),
    "no-replicas-to-verify.json": _plan(_row("orders", 0, [])),
    "nothing-to-verify.json": _plan(),
    "replica-elsewhere-dir.json": _plan(_row("orders", 0, [1, 3], log_dirs=["/d", "/d"])),
}
_CANCELLED: Mapping[str, str] = {
    **{name: text for name, text in _EXECUTED.items() if "invalid" not in name},
    "nothing-to-cancel.json": _plan(),
    "rows-to-cancel.json": _plan(_row("orders", 0, []), _row("orders", 0, [1, 1])),
}

FILES: Mapping[str, str | bytes] = {
    "plan.json": _plan(_row("orders", 0, [1, 2])),
    "topics.json": '{"version": 1, "topics": [{"topic": "orders"}]}',
    "single.json": '{"version": 1, "topics": [{"topic": "single"}]}',
    "two-topics.json": '{"topics": [{"topic": "single"}, {"topic": "orders"}]}',
    "no-topics.json": '{"version": 1, "topics": []}',
    "topics-missing.json": '{"version": 1}',
    "unknown-topic.json": '{"topics": [{"topic": "nothing"}]}',
    "empty-topic.json": '{"topics": [{"topic": ""}]}',
    "invalid-topic.json": '{"topics": [{"topic": "a b"}]}',
    "topics-extra-keys.json": '{"owner": 1, "topics": [{"topic": "orders", "why": "moved"}]}',
    "folder/.keep": "",
    "empty.properties": "",
    "bad-timeout.properties": "request.timeout.ms=soon\n",
    "bad-protocol.properties": "security.protocol=ROT13\n",
    "controllers.properties": f"bootstrap.controllers={NOWHERE}\n",
    "impatient.properties": "default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n",
    "tls.properties": (
        "security.protocol=SSL\ndefault.api.timeout.ms=3000\nrequest.timeout.ms=2000\n"
    ),
    **_BAD_PLANS,
    **_BAD_TOPICS,
    **_VERIFIED,
    **_CANCELLED,
}
"""The files that the argument lists name, by their names."""
