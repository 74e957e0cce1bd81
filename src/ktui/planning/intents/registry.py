"""What a plan can be made for: one table of intents, for the shell, the form and `:plan`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.inputfile import FileProblem
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.drain import bytes_above, drain, replication_factor, shed, swap
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import demote, leaders
from ktui.planning.intents.made_plan import (
    CannotMake,
    MadePlan,
    Wishes,
    check_brokers,
    check_targets,
    check_topics,
)
from ktui.planning.intents.placing import Rule, Strategy, placement, rack_repair, read_rules
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from ktui.planning.plan import LARGEST, join_all, join_named, join_some, shortened
from ktui.quantities import Share, Size, as_bytes, as_count, parse_quantity

Values = Mapping[str, Any]
_NUMBER = re.compile(r"[0-9]{1,10}")
_PATTERN = re.compile(r"[*?\[]")
_PARTITION = re.compile(r"(.+)-([0-9]{1,10})")


class WrongField(CannotMake):
    """What a field has is wrong, or does not fit the cluster; names the field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@contextmanager
def about(field: str) -> Iterator[None]:
    """Let a problem name the field that it is about."""
    try:
        yield
    except WrongField:
        raise
    except CannotMake as problem:
        raise WrongField(field, str(problem)) from None


class Amount(NamedTuple):
    """A share from 0 to 1, or bytes, with the text that says so."""

    text: str
    share: float | None = None
    bytes: int = 0


class Kind(msgspec.Struct, frozen=True):
    """How a field is read from text."""

    read: Callable[[Field, str], Any]  # raises WrongField where the text is wrong
    many: bool = False  # whether it takes all words of the shell that are left
    joined_by: str = ","


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an intent needs, or may have."""

    name: str
    kind: Kind
    label: str  # the label of its line; adjacent fields with the same share one
    placeholder: str = ""
    before: str = ""  # the words in front of it, where it shares a line
    noun: str = ""  # what messages call it, where that is not the words before it or the label
    typed: str = ""  # what a quantity is not when it cannot be read, and what to type
    default: str = ""
    choices: Mapping[str, str] = {}  # the values of a choice, each with its words in the form
    suffixes: tuple[str, ...] = ()  # how the names of files end that the form completes
    metavar: str = ""
    options: Mapping[str, str] = {}  # options of the shell with their help; one is given

    @property
    def called(self) -> str:
        return self.noun or self.before or self.label


def parts(text: str) -> list[str]:
    """Split a list with commas or blanks."""
    return [part for part in re.split(r"[,\s]+", text) if part]


def read_number(field: Field, text: str, least: int = 0) -> int:
    """Read a whole number, or raise WrongField if it is none or less than `least`."""
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= LARGEST:
        example = join_all(["3", "3,7"], "or") if field.kind is BROKERS else "3"
        raise WrongField(
            field.name,
            f"{field.called}: {shortened(text)!r} is not a whole number from {least}. "
            f"Type {example}.",
        )
    return int(text)


def read_quantity(field: Field, kind: type, text: str) -> float:
    """Read a number with a unit, or one in the base unit; raise WrongField."""
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    try:
        parsed: float = parse_quantity(kind, value)
    except ValueError:
        problem = f"{field.called}: {shortened(text)!r} is {field.typed}"
        raise WrongField(field.name, problem) from None
    return parsed


def _share(field: Field, text: str) -> Amount:
    return Amount(text, share=read_quantity(field, Share, text))


def _share_or_size(field: Field, text: str) -> Amount:
    if text.endswith("%"):
        return _share(field, text)
    return Amount(text, bytes=int(read_quantity(field, Size, text)))


def _move(layout: Layout, values: Values, wishes: Wishes) -> MadePlan:
    moves: Mapping[TopicPartition, Brokers] = values["moves"]
    numbers: dict[str, list[int]] = {}
    for tp in sorted(layout.partitions):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    lists: dict[str, dict[int, Brokers]] = {}
    for tp, brokers in moves.items():
        try:
            check_topics(layout, [tp.topic])
            check_targets(layout, brokers)
        except CannotMake as problem:
            raise CannotMake(f"{tp}: {problem}") from None
        if tp not in layout.partitions:
            has = join_named("partition", numbers[tp.topic], most=12)
            raise CannotMake(f"{tp}: topic {tp.topic} has no such partition. It has {has}.")
        if not wishes.includes(tp.topic):
            raise CannotMake(f"{tp}: the plan is to leave topic {tp.topic} as it is.")
        lists.setdefault(tp.topic, {})[tp.partition] = brokers
    if all(Draft(layout, wishes).original(tp) == brokers for tp, brokers in moves.items()):
        have = "has its" if len(moves) == 1 else "have their"
        raise CannotMake(f"{join_some(moves)} {have} replicas already: there is nothing to move.")
    rules = [Rule(topics=each, strategy=Strategy.STATIC, lists=lists[each]) for each in lists]
    return placement(layout, rules, wishes)


def _read_rules(field: Field, text: str) -> list[Rule]:
    try:
        return read_rules(Path(text))
    except FileProblem as problem:
        raise WrongField(field.name, str(problem)) from None


def _read_moves(field: Field, text: str) -> dict[TopicPartition, Brokers]:
    words, moves = text.split(), dict[TopicPartition, Brokers]()
    for name, brokers in zip_longest(words[::2], words[1::2], fillvalue=""):
        shown, match = shortened(name), _PARTITION.fullmatch(name)
        problem = ""
        if match is None or int(match[2]) > LARGEST:
            problem = f"{shown!r} is not a partition, such as orders-3, before its brokers."
        elif not brokers:
            problem = f"{shown}: no brokers follow it. Give them, such as {shown} 4,2,3."
        elif wrong := [each for each in brokers.split(",") if not _NUMBER.fullmatch(each)]:
            problem = f"{shown}: {shortened(wrong[0])!r} is not the id of a broker, such as 3."
        if problem or match is None:
            raise WrongField(field.name, problem)
        tp = TopicPartition(match[1], int(match[2]))
        ids = tuple(map(int, brokers.split(",")))
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            problem = f"{shown}: {join_named('broker', twice)} is named twice. Name it once."
        elif tp in moves:
            problem = f"{shown} is named twice. Name it once, with its brokers."
        if problem:
            raise WrongField(field.name, problem)
        moves[tp] = ids
    return moves


BROKER = Kind(read_number)
BROKERS = Kind(
    lambda field, text: sorted({read_number(field, part) for part in parts(text)}), many=True
)
COUNT = Kind(lambda field, text: read_number(field, text, 1))
TOPICS = Kind(lambda _, text: parts(text), many=True)
SHARE, SHARE_OR_SIZE = Kind(_share), Kind(_share_or_size)
CHOICE = Kind(lambda _, text: text)
MOVES = Kind(_read_moves, many=True, joined_by=" ")
FILE, RULES = Kind(lambda _, text: Path(text)), Kind(_read_rules)
BOUND = Kind(read_number)
"""The most of something; like a size and a flag, every plan has it, and `Wishes` takes it."""
SIZE = Kind(lambda field, text: int(read_quantity(field, Size, text)))
FLAG = Kind(lambda _, text: bool(text))

_SHARE_OF_DISKS = "80%: its disks are at most that full; 200GB: so much less"
_ALL_FIELDS = (
    Field(
        name="path", kind=FILE, label="plan's file", suffixes=(".json",),
        placeholder="a path; → completes it, ↵ reads it; ↑ other plans",
    ),
    Field(
        name="rules", kind=RULES, label="rules file", suffixes=(".yaml", ".yml"), metavar="FILE",
        placeholder="the path of a YAML file; → completes it",
    ),
    Field(
        name="brokers", kind=BROKERS, label="brokers", placeholder="3, or 3,7", metavar="BROKER..."
    ),
    Field(
        name="old", kind=BROKER, label="old broker", metavar="OLD",
        placeholder="3: gives up all its replicas",
    ),
    Field(
        name="new", kind=BROKER, label="new broker", metavar="NEW",
        placeholder="7: takes them over",
    ),
    Field(
        name="topics", kind=TOPICS, label="topics", metavar="TOPIC...",
        placeholder="orders, or orders,pay-*: all their partitions",
    ),
    Field(
        name="moves", kind=MOVES, label="moves", metavar="(PARTITION BROKER,...)...",
        placeholder="orders-3 4,2,3 orders-5 1,2,6: the replicas of each",
    ),
    Field(
        name="factor", kind=COUNT, label="replicas", metavar="N",
        placeholder="3: how many each partition is to have",
    ),
    Field(
        name="broker", kind=BROKER, label="broker", metavar="BROKER",
        placeholder="3: gives up replicas",
    ),
    Field(
        name="until", kind=SHARE_OR_SIZE, label="until", placeholder=_SHARE_OF_DISKS,
        typed="neither a share of its disks, such as 80%, nor a size, such as 200GB.",
        options={
            "--below": "Until no more than this is in use on its disks, such as 80%.",
            "--free": "Until it has given up this much, such as 200GB.",
        },
    ),
    Field(
        name="by", kind=CHOICE, label="even in", default=By.BYTES.value,
        choices={each.value: each.value for each in By} | {By.LEADERS.value: "preferred leaders"},
        options={
            "--by": "What is even afterwards: bytes (default), replicas, or preferred leaders."
        },
    ),
    Field(
        name="within", kind=SHARE, label="within", default="10%",
        placeholder="10%: how far a broker may be off its share",
        typed="no share from 0 to 100%. Type 10%.",
        options={"--within": "How far a broker may be off its share."},
    ),
    Field(
        name="among", kind=BROKERS, label="brokers", metavar="BROKER,...",
        placeholder="1,2,7: only among these; empty: all that are up",
        options={"--brokers": "Spread only among these brokers. Default: all that are up."},
    ),
    Field(
        name="only", kind=TOPICS, label="topics", before="only", noun="only these topics",
        placeholder="orders-*; empty: all", options={
            "--topics": "Change only these topics: names, or shell patterns such as 'orders-*'. "
            "Default: all."
        },
    ),
    Field(
        name="exclude", kind=TOPICS, label="topics", before="not", noun="not these topics",
        placeholder="none",
        options={"--exclude": "Leave these topics as they are: names or shell patterns."},
    ),
    Field(
        name="max_moves", kind=BOUND, label="at most", before="moves", placeholder="none",
        options={"--max-moves": "Copy at most N replicas to another broker."},
    ),
    Field(
        name="max_bytes", kind=SIZE, label="at most", before="bytes", placeholder="none",
        typed="no size. Type 500GB.",
        options={"--max-bytes": "Copy at most SIZE bytes, such as 500GB."},
    ),
    Field(
        name="max_leader_changes", kind=BOUND, label="at most", before="leader changes",
        placeholder="none",
        options={"--max-leader-changes": "Give at most N partitions another preferred leader."},
    ),
    Field(
        name="keep_order", kind=FLAG, label="keep order",
        options={
            "--keep-order": "Put a new replica into the place of the old one, also as the "
            "preferred leader. Default: new replicas come last, and one that has the data leads."
        },
        choices={"": "no", "yes": "yes: a new replica takes the place of the old one"},
    ),
)  # fmt: skip
FIELDS: Mapping[str, Field] = {each.name: each for each in _ALL_FIELDS}
BUDGET = ("max_moves", "max_bytes", "max_leader_changes")
COMMON = ("only", "exclude", *BUDGET, "keep_order")
"""The fields of `Wishes`: those that every plan has whose replicas are copied."""
_LEADS = ("only", "exclude", "max_leader_changes")


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a plan can be made for. It is made once its needed fields have values."""

    name: str  # the verb of `ktui plan`
    needs: tuple[str, ...] = ()  # in the order of the shell's arguments
    may_have: tuple[str, ...] = COMMON  # the shell has all of `COMMON` for any intent
    means: str
    help: str  # the same for the shell, with what it leaves alone
    words: Callable[[Values], str]  # says what is wanted: drain broker 3
    reads: str  # what is read for it, with the texts of its fields: what is on {brokers}
    named_by: tuple[str, ...] = ()  # the fields whose texts are in the name of a run
    file: str = ""  # the name of its file for the form, if not of verb and `named_by`
    make: Callable[[Layout, Values, Wishes], MadePlan]  # raises CannotMake
    blames: str = ""  # the field that a problem is about which names none; empty: intent
    allowed: Allowances = Allowances()
    amount: Callable[[Values], Callable[[int], str]] = lambda _: as_bytes

    @property
    def fields(self) -> list[Field]:
        return [each for name, each in FIELDS.items() if name in (*self.needs, *self.may_have)]

    def run_name(self, values: Values) -> str:
        """Return the name of a run or a file of such a plan: drain-3."""
        named = [values[field] for field in self.named_by]
        lists = [[each] if isinstance(each, int | str) else each or () for each in named]
        return "-".join([self.name, *(str(each) for some in lists for each in some)])

    @property
    def needed(self) -> list[str]:
        return [name for name in FIELDS if name in self.needs]


def _names(noun: str, name: str) -> Callable[[Values], str]:
    return lambda values: f"{noun} {join_named('broker', values[name])}"


def _replicas(_: Values) -> Callable[[int], str]:
    return lambda count: as_count(count, "replica")


def _leaders(_: Values) -> Callable[[int], str]:
    return lambda count: as_count(count, "preferred leader")


def _spread_amount(values: Values) -> Callable[[int], str]:
    of = {By.REPLICAS: _replicas, By.LEADERS: _leaders}.get(By(values["by"]))
    return as_bytes if of is None else of(values)


def _swap(layout: Layout, values: Values, wishes: Wishes) -> MadePlan:
    with about("old"):
        check_brokers(layout, [values["old"]], leaving=True)
    with about("new"):
        check_targets(layout, [values["new"]])
        return swap(layout, values["old"], values["new"], wishes)


def _factor(layout: Layout, values: Values, wishes: Wishes) -> MadePlan:
    with about("topics"):
        topics = _matching_topics(layout, values["topics"])
    return replication_factor(layout, topics, values["factor"], wishes)


def _matching_topics(layout: Layout, typed: Sequence[str]) -> list[str]:
    topics = sorted({tp.topic for tp in layout.partitions})
    check_topics(layout, [each for each in typed if _PATTERN.search(each) is None])
    for pattern in typed:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise CannotMake(f"No topic matches {shortened(pattern)!r}.")
    return [topic for topic in topics if any(fnmatchcase(topic, each) for each in typed)]


def _spread(layout: Layout, values: Values, wishes: Wishes) -> MadePlan:
    among, within = values.get("among") or None, values["within"].share
    with about("among" if among else "within"):
        return spread(layout, wishes, among, By(values["by"]), within)


def _shed(layout: Layout, values: Values, wishes: Wishes) -> MadePlan:
    broker, until = values["broker"], values["until"]
    with about("broker"):
        check_brokers(layout, [broker])
    freed = until.bytes if until.share is None else bytes_above(layout, broker, until.share)
    return shed(layout, broker, freed, wishes)


def _shed_words(values: Values) -> str:
    text, share, _ = values["until"]
    until = f"{text} less" if share is None else f"disks at most {text} full"
    return f"shed from broker {values['broker']}: {until}"


def _spread_words(values: Values) -> str:
    among = f" among {join_named('broker', values['among'])}" if values.get("among") else ""
    return f"spread {values['by']}{among} within {values['within'].text}"


_INTENTS = (
    Intent(
        name="drain", needs=("brokers",), named_by=("brokers",), blames="brokers",
        means="These brokers give up all their replicas. They may be down.",
        help="""Plan to take all replicas off BROKERs, which may be down.

        No other replica moves. A new one goes to a rack that the partition lacks, then to the
        brokers with the fewest replicas of the topic, then with the fewest bytes.""",
        words=_names("drain", "brokers"), reads="what is on {brokers}",
        make=lambda layout, values, wishes: drain(layout, values["brokers"], wishes),
    ),
    Intent(
        name="fill", needs=("brokers",), named_by=("brokers",), blames="brokers", amount=_replicas,
        means="These brokers get their share of all replicas.",
        help="""Plan to give BROKERs their share of the replicas.

        Replicas go only to these brokers, which are new for instance. They come from those with the
        most bytes.""",
        words=_names("fill", "brokers"), reads="what {brokers} could hold",
        make=lambda layout, values, wishes: fill(layout, values["brokers"], wishes),
    ),
    Intent(
        name="swap", needs=("old", "new"), named_by=("old", "new"), blames="new",
        means="The new broker takes the place of the old one everywhere.",
        help="""Plan to let broker NEW take over from broker OLD.

        NEW comes into the places of OLD, also as the preferred leader. A replica goes elsewhere, as
        with drain, where NEW has one of the partition already, has no room, or is on a rack that
        the partition is on.""",
        words=lambda values: f"swap broker {values['old']} for broker {values['new']}",
        reads="what is on {old}", make=_swap,
    ),
    Intent(
        name="replication-factor", needs=("factor", "topics"), may_have=("exclude", *BUDGET),
        named_by=("factor",), file="{topics}-{factor}-replicas", blames="factor",
        means="Each partition of these topics gets this number of replicas.",
        help="""Plan to give all partitions of TOPICs N replicas.

        A TOPIC is a name or a shell pattern such as 'orders-*'. No other replica moves, and a
        preferred leader that is alive stays.""",
        words=lambda values: (
            f"replication factor {values['factor']} for {join_some(values['topics'])}"
        ),
        reads="{topics}", make=_factor, allowed=Allowances(replication_factor_change=True),
    ),
    Intent(
        name="spread", needs=("within",), may_have=("among", "by", *COMMON),
        named_by=("by", "among"), blames="within", amount=_spread_amount,
        means="Brokers become even, with as few bytes copied as possible.",
        help="""Plan to make brokers even with the least copying.

        Afterwards each broker is within a tolerance of its share of what they all have. With --by
        leaders only the order of replicas changes, and nothing is copied.""",
        words=_spread_words, reads="all {by}", make=_spread,
    ),
    Intent(
        name="shed", needs=("broker", "until"), named_by=("broker",), blames="until",
        means="The broker gives up just enough bytes, and no more.",
        help="""Plan to take just enough bytes off BROKER.

        It gives up as little more than that as possible. Replicas go where drain would put them,
        but never to fewer racks.""",
        words=_shed_words, reads="what is on {broker}", make=_shed,
    ),
    Intent(
        name="leaders", may_have=_LEADS, amount=_leaders,
        means="Each broker leads its share. Nothing is copied.",
        help="""Plan to spread preferred leaders evenly.

        Only the order of replicas changes, of as few partitions as possible. Nothing is copied.""",
        words=lambda _: "spread preferred leaders", reads="all leaders",
        make=lambda layout, _, wishes: leaders(layout, wishes),
    ),
    Intent(
        name="demote", needs=("brokers",), may_have=_LEADS, named_by=("brokers",),
        blames="brokers", means="These brokers come last in every list. Nothing is copied.",
        help="""Plan to take the leadership off BROKERs.

        Each comes last in every list of replicas. Only the order changes. Nothing is copied.""",
        words=_names("demote", "brokers"), reads="what {brokers} leads",
        make=lambda layout, values, wishes: demote(layout, values["brokers"], wishes),
    ),
    Intent(
        name="rack-repair", means="Partitions get onto as many racks as they can be on.",
        help="""Plan to put partitions on as many racks as they can be on.

        Only replicas that share a rack with another one of their partition move.""",
        words=lambda _: "repair racks", reads="all racks",
        make=lambda layout, _, wishes: rack_repair(layout, wishes),
    ),
    Intent(
        name="placement", needs=("rules",), blames="rules",
        means="Each topic follows the first rule of the file that matches it.",
        help="""Plan to place topics by the rules in FILE, a list in YAML.

        A topic follows the first rule whose `topics` it matches: a name or a shell pattern. Its
        `strategy` is any, balanced-leaders, in-rack, cross-rack, or static with `lists`. Topics
        without a rule stay as they are, and as few replicas move as the rules need.""",
        words=lambda values: f"place topics by {as_count(len(values['rules']), 'rule')}",
        reads="{rules}",
        make=lambda layout, values, wishes: placement(layout, values["rules"], wishes),
    ),
    Intent(
        name="move", needs=("moves",), may_have=BUDGET, blames="moves",
        means="Each partition gets the replicas that are named for it, in their order.",
        help="""Plan to give each PARTITION the replicas on its BROKERs, such as orders-3 4,2,3.

        The first broker is the preferred leader. More pairs may follow. No other partition
        changes.""",
        words=lambda values: f"move {join_some(values['moves'])}",
        reads="{moves}", make=_move, allowed=Allowances(replication_factor_change=True),
    ),
)  # fmt: skip
INTENTS: Mapping[str, Intent] = {each.name: each for each in _INTENTS}
