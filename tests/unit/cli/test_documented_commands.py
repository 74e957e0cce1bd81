"""ktui accepts every command line in README.md and docs/, and runs those that it can run here."""

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result
from textual.app import App

from ktui.cli.context.cluster import Cluster
from ktui.cli.main import ktui
from ktui.insights import NAME as INSIGHTS
from ktui.insights import encode
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.call_ktui import NamedCluster
from support.cli.cancel_sandbox import MOVED, CancelledRun, CancelSandbox
from support.journals.journals import GoodClaim
from support.pipeline.report_facts import insights
from support.recordings.recordings import a_recording, files_of
from support.simulated.moving_clusters import a_cluster
from support.simulated.observations import START, a_move, an_observation

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "src" / "ktui" / "simulated" / "scenarios"
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENDS = {"|", ">", ">>", "2>", "&&", ";", "&"}

EXEMPT: Mapping[str, str] = {
    "throttle drain --slo": "needs a figure; tests/unit/execution/host/test_own_figure.py",
    "throttle drain --undo": "needs an earlier change; tests/unit/cli/run/test_throttle.py",
    "broker remove": "starts engines; tests/unit/cli/broker/test_remove.py",
    "broker demote": "starts an engine; tests/unit/cli/broker/test_cordon.py",
    "broker undo": "needs a demoted broker; tests/unit/cli/broker/test_cordon.py",
    "plan undo": "needs a run that has ended; tests/unit/cli/plan/test_undo.py",
    "broker unregister": "needs a broker that is down; tests/unit/cli/broker/test_unregister.py",
    "alter-topic": "starts an engine process; tests/kafka/verbs/test_plans.py",
    "doctor": "tries two Kafka clients; tests/unit/cli/doctor/test_connection.py",
    "doctor --clear-throttles": "watches for 10 s; tests/unit/cli/doctor/test_clear_throttles.py",
    "lab": "starts a real Kafka; tests/kafka/lab/test_lab.py",
    "pipeline check": "needs a lake; tests/pipeline/test_lake_runs.py",
    "pipeline report": "needs tables that Spark made; tests/pipeline/test_report_from_a_lake.py",
    "pipeline run": "starts Spark; tests/pipeline/test_lake_runs.py",
    "pipeline run --follow": "starts Spark; tests/pipeline/test_follow.py",
    "pipeline run --grid": "starts Spark; tests/pipeline/test_what_if.py",
    "pipeline run --master": "needs a Spark cluster; tests/pipeline/test_spark_cluster.py",
    "pipeline sql": "needs a lake; tests/unit/cli/pipeline/test_sql.py",
    "progress": "polls a real cluster; tests/kafka/reassign/test_reassign.py",
    "reassign": "starts an engine process; tests/kafka/reassign/test_reassign.py",
    "record --context": "records until its end in real time; tests/unit/cli/record/test_record.py",
    "rehearse plan.json --context": "measures for a minute; "
    "tests/unit/cli/rehearse/test_rehearse.py",
    "snapshot": "measures for a minute; tests/unit/cli/snapshot/test_snapshot.py",
    "resume": "starts an engine process; tests/unit/cli/start/test_resume.py",
    "runs import": "takes a cluster; tests/unit/cli/run/test_imported_runs.py",
    "verify": "reads a real cluster; tests/kafka/reassign/test_reassign.py",
    "start": "starts an engine process; tests/kafka/runs/test_start.py",
}
"""Command lines that no test here runs, by their prefix: why, and the test of the verb."""

PLAN = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3]}]}'
EXIT_CODES: Mapping[str, int] = {
    "plan check bad.json": 2,
    "plan drain 3": 3,  # a partition of the cluster here is in motion already
    "broker empty 4": 3,
}


class CommandLine(NamedTuple):
    """One command line of a page."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text[:60]}"

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)[1:]

    @property
    def expanded(self) -> list[str]:
        """The arguments as a shell passes them on."""
        return [str(Path(word).expanduser()) if word[0] == "~" else word for word in self.words]

    @property
    def commands_an_engine(self) -> bool:
        """Whether the run's engine has to answer."""
        verb, *more = self.words
        return verb in {"add", "limits", "pause", "continue"} or (
            verb in {"throttle", "schedule"} and len(more) > 1
        )

    @property
    def names_run(self) -> bool:
        """Whether it is about the run drain."""
        return "drain" in self.words and self.words[:2] != ["plan", "drain"]

    def begins(self, prefix: str) -> bool:
        return f"{shlex.join(self.words)} ".startswith(f"{prefix} ")

    @property
    def listed(self) -> str | None:
        """Why no test here runs it; None for one that is run."""
        return EXEMPT.get(max((each for each in EXEMPT if self.begins(each)), key=len, default=""))


def command_lines() -> Iterator[CommandLine]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in _BLOCK.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                yield from (CommandLine(path.name, text) for text in _commands(line))


def commands_in_sentences() -> Iterator[CommandLine]:
    """Yield the calls of ktui in the prose; these omit values, or name some X."""
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))):
        sentences = _BLOCK.sub("", path.read_text(encoding="utf-8"))
        for code in re.findall(r"`(ktui [^`]+)`", sentences):
            yield CommandLine(path.name, " ".join(code.split()))


def _commands(line: str) -> Iterator[str]:
    """Yield the calls of ktui in a line, without what the shell does with their output."""
    if not re.search(r"(^|[;|] |\$ )ktui( |$)", line):
        return
    command: list[str] = []
    for word in [*shlex.split(line.removeprefix("$ "), comments=True), ";"]:
        if word not in _ENDS:
            command.append(word)
            continue
        if command[:1] == ["ktui"]:
            yield shlex.join(command)
        command = []


LINES = list(dict.fromkeys(command_lines()))
IN_SENTENCES = list({line.text: line for line in commands_in_sentences()}.values())
RUN = list({line.text: line for line in LINES if line.listed is None}.values())


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse a command line down to the arguments of its verb, and run nothing.

    Raises:
        click.UsageError: an option, an argument or a verb that ktui does not accept.
    """
    context = command.make_context(command.name or "ktui", list(words), parent=parent)
    rest_of_line = [*context._protected_args, *context.args]
    if isinstance(command, click.Group) and rest_of_line:
        _, verb, rest = command.resolve_command(context, rest_of_line)
        assert verb is not None, rest_of_line
        parse(verb, rest, context)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the documented command lines name, in a home folder."""
    home = tmp_path_factory.mktemp("home")
    scenario = _first_block("scenarios.md", "yaml")
    context = '{properties: {bootstrap.servers: "127.0.0.1:1"}}'
    for name, text in {
        "config/config.yaml": f"contexts: {{prod: {context}, prod-eu: {context}}}",
        "client.properties": "bootstrap.servers=127.0.0.1:1",
        ".local/state/ktui/lab/client-viewer.properties": "bootstrap.servers=127.0.0.1:1",
        **dict.fromkeys(("plan.json", "drain.json", "more.json", "back.json"), PLAN),
        "bad.json": '{"version": 1}',
        **dict.fromkeys(("mine.yaml", "prod.yaml"), scenario),
        "limits.yaml": _first_block("insights.md", "yaml"),
        "rules.yaml": _first_block("intents.md", "yaml"),
        "prod.yaml": _first_block("rehearsing.md", "yaml"),
        "twin.yaml": (SCENARIOS / "drain-a-broker.yaml").read_text(encoding="utf-8"),
        "drain.run": "",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    for name in (INSIGHTS, f"lake/{INSIGHTS}", f".local/state/ktui/{INSIGHTS}"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(encode(insights("prod", "test")))
    at_14_02 = (START.astimezone().replace(hour=14, minute=2) - START).seconds
    history = [an_observation([a_move()], at_14_02 + float(n)) for n in range(-2, 3)]
    state = home / ".local/state/ktui"
    a_recording(state / "recordings", history)
    for run in ("drain", "drain-b3"):
        a_recording(state / "runs" / run / "recording", history)
    shutil.copy(files_of(state / "recordings")[0], home / "000003.jsonl.gz")
    return home


def _first_block(page: str, language: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"```{language}\n")[1].split("```")[0]


@pytest.fixture
def home(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, as the home folder and the current one."""
    home = shutil.copytree(files, tmp_path / "home")
    use_as_home(home, monkeypatch)
    return home


def use_as_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("KTUI_STATE_DIR", str(home / ".local/state/ktui"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """A cluster with a partition in motion, whatever brokers or context the line names."""
    cluster = a_cluster(moving=["orders-0"], resting=["payments-3"])
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(1.0)
    cluster.clock._leaping = True
    permissions = NamedCluster(reader=cluster.reader).permissions
    monkeypatch.setattr(Cluster, "reader", lambda _: cluster.reader())
    monkeypatch.setattr(Cluster, "writer", lambda _: cluster.writer())
    monkeypatch.setattr(Cluster, "claim", lambda _, me, *_more: GoodClaim(me))
    monkeypatch.setattr(Cluster, "permissions", lambda _, topics: permissions(topics))
    return cluster


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The class names of the views that would be shown; tests/tui shows them."""
    opened: list[str] = []

    async def show(app: App[None]) -> None:
        opened.append(type(app).__name__)

    for verb in ("watch.command", "watch.demo", "replay"):
        monkeypatch.setattr(f"ktui.cli.{verb}.show_app", show)
    for verb in ("watch.command", "watch.demo", "replay"):
        monkeypatch.setattr(f"ktui.cli.{verb}.need_terminal", lambda *_: None)
    return opened


def call(line: CommandLine) -> Result:
    return CliRunner().invoke(ktui, line.expanded, input=PLAN)


def assert_done(line: CommandLine, result: Result) -> None:
    expected = next((code for each, code in EXIT_CODES.items() if line.begins(each)), 0)
    assert result.exit_code == expected, (result.output, result.exception)


def test_the_documentation_has_command_lines() -> None:
    assert len(LINES) > 80
    assert len(RUN) > 40


@pytest.mark.parametrize("line", LINES, ids=str)
def test_ktui_accepts_every_documented_command_line(
    line: CommandLine, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "..." in line.words or "…" in line.text:
        pytest.fail(f"{line.page} cuts a command line short: {line.text}")
    use_as_home(files, monkeypatch)

    parse(ktui, line.expanded)


@pytest.mark.parametrize("line", IN_SENTENCES, ids=str)
def test_ktui_has_the_verb_and_options_of_every_command_in_a_sentence(
    line: CommandLine, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_as_home(files, monkeypatch)

    omitted_values = (click.BadParameter, click.BadOptionUsage, click.exceptions.NoArgsIsHelpError)
    with suppress(*omitted_values, click.exceptions.Exit):  # --help exits
        parse(ktui, line.words)


@pytest.mark.parametrize(
    "line", [line for line in RUN if not (line.names_run or "--cluster" in line.words)], ids=str
)
def test_a_documented_command_line_without_an_engine_runs(
    line: CommandLine, home: Path, cluster: SimulatedCluster, views: list[str]
) -> None:
    del home, cluster

    result = call(line)

    assert_done(line, result)
    shows_view = line.words[:1] in (["watch"], ["demo"], ["replay"]) or line.text.startswith(
        "ktui --"
    )
    assert len(views) == (shows_view and "--list" not in line.words)


@pytest.mark.parametrize("line", [line for line in RUN if line.names_run], ids=str)
def test_a_documented_command_line_about_a_run_runs(
    line: CommandLine, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "drain.run").unlink()  # what `ktui runs export` is about to write
    run = CancelledRun(tmp_path, monkeypatch, {f"orders-{n}": MOVED["orders-0"] for n in range(4)})
    run.until_s = 60.0
    monkeypatch.setenv("KTUI_STATE_DIR", str(run.state.path))

    with run.alive() if line.commands_an_engine else nullcontext():
        result = call(line)

    assert_done(line, result)


@pytest.mark.parametrize("line", [line for line in RUN if "--cluster" in line.words], ids=str)
def test_a_documented_command_line_about_a_whole_cluster_runs(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = CancelSandbox(tmp_path, monkeypatch)
    sandbox.others_move("orders-0")
    monkeypatch.setenv("KTUI_STATE_DIR", str(sandbox.state.path))

    result = call(line)

    assert_done(line, result)
    assert sandbox.moving == set()


@pytest.mark.parametrize("prefix", EXEMPT)
def test_every_exempted_command_line_is_documented_and_has_its_own_test(prefix: str) -> None:
    assert any(line.begins(prefix) for line in LINES)
    assert (ROOT / EXEMPT[prefix].split("; ")[1]).exists()
