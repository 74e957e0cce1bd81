"""Recordings without names: observations, events and sentences under other names."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.cluster.text import is_simulated, marked, simulated_id
from ktui.json_text import decode_untrusted
from ktui.recording.segments import AnyLine, CensusLine, End, Head, LostPollLine, PollLine, RunLine

_WORD = re.compile(r"[^\s,;()\[\]{}\"'`<>=|@]+")
_ENDS = ".:!?"
_FIGURE = re.compile(
    r"[-+~]?\d+([.:]\d+)?(%|x|[kKMGT]?i?B(/s)?|ms|s|m|h|d)?"
    r"|[kKMGT]?i?B/s|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(\.\d+)?([+]\d\d:\d\d)?"
)
_NUMBERED = re.compile(r"(.+)([-:]\d+)")  # a partition of a topic, or a port of a host
_SIGNS = re.compile(r"\W+|_+")
_LIST = re.compile(r"[\d,:*]*")  # a setting that throttles: a rate, or partitions and brokers


class WordHider:
    """Hides the words of free texts; learned names keep their kind."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._names: dict[str, str] = {}
        self._phrases: dict[str, str] = {}

    def learn(self, name: str, hidden: str) -> None:
        of_its_kind = self._names if _WORD.fullmatch(name) else self._phrases
        of_its_kind.setdefault(name, hidden)

    def hidden(self, text: str) -> str:
        """Return a text in which every word but figures and plain words is hidden."""
        if _LIST.fullmatch(text):
            return text
        for name in sorted(self._phrases, key=len, reverse=True):
            if name in text:
                whole = map(self.hidden, text.split(name))
                return self._phrases[name].join(whole)
        return _WORD.sub(lambda found: self._word(found[0]), text)

    def _word(self, word: str) -> str:
        core = word.rstrip(_ENDS)
        rest = word[len(core) :]
        if word in self._names:
            return self._names[word]
        if core in self._names:
            return self._names[core] + rest
        if is_plain(core):
            return word
        numbered = _NUMBERED.fullmatch(core)
        if numbered is not None and numbered[1] in self._names:
            return self._names[numbered[1]] + numbered[2] + rest
        return self._hide(core) + rest


def is_plain(word: str) -> bool:
    """Whether a word is a figure, a sign, a plain word, or one of Kafka's names of errors."""
    if not word or _FIGURE.fullmatch(word) or _SIGNS.fullmatch(word):
        return True
    parts = word.split("_") if word.isupper() else [word]
    return all(part.lower() in PLAIN_WORDS for part in parts if part)


_KINDS = {
    "topic": "topic",
    "topics": "topic",
    "topic_id": "id",
    "cluster_id": "cluster",
    "plan": "plan",
    "plan_sha256": "sha256",
    "host": "host",
    "user": "user",
    "bootstrap_server": "host",
    "command_config": "path",
    "file": "path",
    "run": "run",
    "context": "cluster",
    "on_event": "path",
    "while_command": "path",
    "metrics_file": "path",
    "sli_command": "path",
    "sli_prometheus": "path",
}

_KEPT = frozenset(
    (
        "event", "by", "state", "kind", "request", "verdict", "op", "key", "scope", "source",
        "version", "until", "shape", "mode", "order", "on_stall", "on_foreign_change",
        "on_foreign_throttle", "on_conflict", "broker", "window", "start_at",
        "ends_at", "unit", "cause",
    )
)  # fmt: skip
"""Keys with words of ktui or Kafka, a version, a time or a broker: their values stay."""

_WHO = re.compile(r"([^@]*)@(\S*)( \(\d+\))?")  # the author of a command: user@host (pid)


_ANYTHING = msgspec.json.Decoder()


def redact_event(event: bytes, names: Redaction) -> bytes:
    """Return an event, as JSON, without names. Values under unknown keys count as free text."""
    try:
        return msgspec.json.encode(_hidden("", decode_untrusted(_ANYTHING, event), names))
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def _hidden(key: str, value: Any, names: Redaction) -> Any:
    match value:
        case str():
            return _hidden_word(key, value, names)
        case dict():
            return {
                _hidden_key(k, names): _hidden(_kind_of_name(k, value), v, names)
                for k, v in value.items()
            }
        case list():
            return [_hidden(key, item, names) for item in value]
    return value


def _hidden_word(key: str, value: str, names: Redaction) -> str:
    if key in _KEPT:
        return value
    if key in _KINDS:
        return names.hide(_KINDS[key], value)
    who = _WHO.fullmatch(value) if key == "who" else None
    if who is None:
        return names.text(value)
    return f"{names.hide('user', who[1])}@{names.hide('host', who[2])}{who[3] or ''}"


def _hidden_key(key: str, names: Redaction) -> str:
    """Keep plain keys: fields and states are plain words, and nothing else is a key so far."""
    return key if all(map(is_plain, key.split("_"))) else names.text(key)


def _kind_of_name(key: str, within: Mapping[str, Any]) -> str:
    return str(within["scope"]) if key == "name" and "scope" in within else key


_WORDS = """
a abandon abort abortable aborted about above absent accept acceptability acceptable accepted access
acknowledgement acks active actively actually add added adding address adds administrative after
again against agree ahead aim algorithm alive all allocation allowed alone already also alter
alterconfigs altered altering alterpartition alters among an and another answer answered answers any
anything anywhere api append appends are arrived as asc asked asking assigned assignment assignor
associated assumed at attempt attempted attempts auth authenticated authentication authority
authorization authorized
auto.leader.rebalance.enable available avoid back backslash backslashes batch batched be because
been before begin beginning begins begun behind being believes belongs below between bind blocked
body bootstrap both break bring broker brokers budget budget_shared building but by byte bytes
bytes_s called came can canary cancel cancelled cancels cannot cant carries carry catch caught
cause causing certain certificate change changed changes channels character characters check checked
checksum choice cleared client clients closed closing cluster code come comes comma command commands
commas commit commits common communication compared compares compatible complete completed
compression concurrent config configurable configuration configure configured conflict confluent
connecting connection considered consumer contains context continue continued control controller
controllers convert coordinator copied copies copy cordoned correct corrupt could count counts
create created creating credential criteria ctrl ctrl-c current currently cut cuts damaged data date
days dead decision default delegation delete deleted deleting deletion delivery desc describe
describeconfigs described describing deserialization details deterministic device did died differ
different digits dir directory dirs disabled disconnect disconnected disconnection disk disks do
doctor does doesn done double down dropping dt due duplicate during each earlier econnrefused
econnreset effect either elapsed elect elected electing election elects eligible else elsewhere
empty enabled enables encountered encrypted end ended endpoint ends engine enough entering entries
env environment eof eofs epoch equal errno error errorcode escape etc event events ever every
exceeded exceeds exception execute exist exists expected expired extra facing factor factors fail
failed failing fails failure fall false far feature features fenced fences fetch fetches fetching
fewer figure figures file finalized finish firewalls first fit fits flag flight flying folder
followed follower.replication.throttled.rate follower.replication.throttled.replicas followers
follows for forbidden force foreign form format forwarding found four fresh fri from fs full further
future gaps gate gated gates gave gb generation gentle get gib give given go goal goes gone good
grant greater group gssapi guaranteed guard had hand handshake hanging happen has hash have head
health heartbeat heartbeats held hence here high hold holds host how https i id identification ids
if ignored illegal illegally immediate in in-sync inbound incompatible inconsistent increasing
indicates ineligible install instance instead insync integer inter internal interrupt interrupted
into invalid is isr it its itself join joined joins journal journals json jsonl kafka kb keep keeps
kept key keys keystore keytool kib kind kip-435 know known knows ktui lag large larger last late
later lead leader leader.replication.throttled.rate leader.replication.throttled.replicas leaders
leadership leads least leave leaves led left less letters lift lifted like likely limit limits line
list listener listing lists live load loading local locate location lock locked locks log login logs
long long-first longer look looks lookup lost low lower made maintained make malformed mapping mark
match matches max maximum may mb mean meant meanwhile mechanism meet member membership memory
mention message messages metadata metrics mib microseconds middle min min.insync.replicas minimum
minute mismatch mismatched missing mode mon monotonically more most mostly mounts move moved
movements moves moving ms much must name named names need needed needs negative nested network never
new newer no nobody node non none nor not nothing now nul null number oauth object objective occurs
of off offline offset offsets old older on once one ones ongoing only op open opened opens operation
operations operator options or order org original other others otherwise our ours out outage
outdated outside over overloaded oversize own owned owner ownership owns package parameters part
particular partition partitions pass passed password path pause paused peak peer pem per permission
permitted pid place plain plaintext plan plan_sha256 planned points policy poll polls port position
preferred primary principal printed private proc process processed produce producer producerid
producers progress prometheus proposed protocol protocols provided providers provides push put puts
question queue queued quota quotes rack racks raise raised range rate rates rather re-elected
reached read read-only reading reads ready reason reassign reassigned reassigning reassignment
reassignments reassigns rebalance rebalancing received receiving recent recipient record recorded
recording recordings records recovered recovering recovery redaction referred refused registered
registers registration rejected rejoin remove removed removing renewer replace replaced replan
replanned replica replica.alter.log.dirs.io.max.bytes.per.second replicas replicated replication
reports request requested requesting requests required requiredacks reset resolve resolved resource
respond rest resumable resume resumed retarget retention retry return returned returns revocation
roll rollback rolled rolling room route rpcs run running runs s safe safely said same sasl sat
satisfy save says schedule scope scram seconds secret security see seen sees segment semicolon send
sender sending sent seq sequence server session set setting settings setup several sha sha256 shall
shape share shared shares shm should shown shows shut sigint sigkill sigkilled signal signed sigterm
since single size size-asc size-desc sized sizes skip sli slo slow slower small snapshot so some
someone soon soonest source space speak specified specify split ssl sslv3 stale stall stalled stalls
stand start start_at started state static status stay stays step steps still stop stopped stopping
stops storage stored string submitted subscribed subscription subtract successfully such sun
supplied support supported sync synchronous system t table take taken takes target tb telemetry tell
terminal text than that the their them then there these they this those though throttle throttled
throttles throttling through thrown thu tiered time timed timeout times timestamp tls tlsv1 to
together token told too took tools topic topics touched transaction transactional transactionalid
transactions tried trigger trim trimmed true trusts try trying tue twice two txn type unable
unacceptable unauthorized unavailable unbounded unclean.leader.election.enable under
under-replicated unexpected unit unknown unreachable unreadable unreleased unseen unset unstable
unsupported until up update updated upgrade urgent url usage use used user username using utf valid
validation value values variable verdict verification verify version versions via view violation
voter voters wait waited waiting waits wal want was watermark wave way we wed were what when where
whether which while while_command who whole whose why will window windows with within without words
worked would write writes writetxnmarker writing written wrong wrote yet you your zero
"""
PLAIN_WORDS = frozenset(_WORDS.split())


_DIGITS, _SESSION_DIGITS = 12, 32
_CLUSTER = "cluster"


class Redaction:
    """Hides names in lines, and in later free texts; a secret `key` keeps them from anybody."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._words = WordHider(lambda name: self._hidden("name", name))

    def __call__(self, line: AnyLine) -> AnyLine:
        match line:
            case Head():
                return self.head(line)
            case PollLine():
                return self._poll_line(line)
            case LostPollLine():
                return msgspec.structs.replace(line, reason=self.text(line.reason))
            case RunLine():
                return self._run_line(line)
            case End():
                return line

    def hide(self, kind: str, name: str) -> str:
        if not name:
            return name
        hidden = self._hidden(kind, name)
        self._words.learn(name, hidden)
        return hidden

    def text(self, text: str) -> str:
        return self._words.hidden(text)

    def head(self, head: Head) -> Head:
        return msgspec.structs.replace(
            head,
            session=self._digest(head.session)[:_SESSION_DIGITS],
            cluster_id=self.hide(_CLUSTER, head.cluster_id),
            cluster=head.cluster and marked(self.hide(_CLUSTER, head.cluster), head.cluster_id),
            redacted=True,
        )

    def _hidden(self, kind: str, name: str) -> str:
        hidden = f"{kind}-{self._digest(name)[:_DIGITS]}"
        return simulated_id(hidden) if kind == _CLUSTER and is_simulated(name) else hidden

    def _digest(self, name: str) -> str:
        return hmac.digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()

    def _maybe(self, kind: str, name: str | None) -> str | None:
        return None if name is None else self.hide(kind, name)

    def _run_line(self, line: RunLine) -> RunLine:
        run, started = self.hide("run", line.run), line.run_id.removeprefix(f"{line.run}@")
        prefixed = started != line.run_id
        return msgspec.structs.replace(
            line,
            run=run,
            run_id=f"{run}@{started}" if prefixed else self.hide("run", line.run_id),
            event=msgspec.Raw(redact_event(bytes(line.event), self)),
        )

    def _poll_line(self, poll: PollLine) -> PollLine:
        names = tuple(
            (number, self.hide("topic", topic), partition, self._maybe("id", topic_id))
            for number, topic, partition, topic_id in poll.names
        )
        return msgspec.structs.replace(
            poll,
            names=names,
            brokers=_each(poll.brokers, self._broker),
            log_dirs=_each(poll.log_dirs, lambda dirs: tuple(map(self._log_dir, dirs))),
            topic_configs={
                self.hide("topic", topic): None if config is None else self._config(config)
                for topic, config in poll.topic_configs.items()
            },
            census=None if poll.census is None else self._census(poll.census),
            failures=None if poll.failures is None else tuple(map(self._failure, poll.failures)),
        )

    def _broker(self, broker: Broker) -> Broker:
        host, rack = self.hide("host", broker.host), self._maybe("rack", broker.rack)
        return msgspec.structs.replace(broker, host=host, rack=rack)

    def _log_dir(self, log_dir: LogDir) -> LogDir:
        error = None if log_dir.error is None else self.text(log_dir.error)
        return msgspec.structs.replace(log_dir, path=self.hide("path", log_dir.path), error=error)

    def _config(self, config: TopicConfig) -> TopicConfig:
        return msgspec.structs.replace(
            config,
            leader_throttled_replicas=self.text(config.leader_throttled_replicas),
            follower_throttled_replicas=self.text(config.follower_throttled_replicas),
        )

    def _census(self, census: CensusLine) -> CensusLine:
        unhealthy = tuple((self.hide("topic", topic), n) for topic, n in census.unhealthy)
        return msgspec.structs.replace(census, unhealthy=unhealthy)

    def _failure(self, failure: Failure) -> Failure:
        topic = self._maybe("topic", failure.topic)
        return msgspec.structs.replace(failure, topic=topic, answer=self.text(failure.answer))


def _each(of: Mapping[int, Any], hidden: Callable[[Any], Any]) -> dict[int, Any]:
    return {key: None if value is None else hidden(value) for key, value in of.items()}
