"""`ktui reassign` prints and exits as Apache Kafka's own tool, where nothing speaks against it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner, Result
from man_pages import page

from ktui import __version__
from ktui.cli.main import ktui
from ktui.cli.reassign.command import Arguments, command, help_text
from ktui.cli.reassign.options import OPTIONS, Action, Group

ONE_ACTION = (
    "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"
)
HINT = "Try 'ktui reassign --help' for help.\n"
SHOWN = [name for name, option in OPTIONS.items() if not option.refusal]


def reassign(*words: str) -> Result:
    result = CliRunner().invoke(command, words, prog_name="ktui reassign")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Arguments]:
    """The arguments of the actions that were performed; each ends with exit code 1."""
    performed: list[Arguments] = []

    def act(arguments: Arguments) -> int:
        performed.append(arguments)
        return 1

    monkeypatch.setattr("ktui.cli.reassign.command.act", act)
    return performed


def test_checked_words_reach_the_action_and_its_exit_code_the_shell(done: list[Arguments]) -> None:
    result = reassign("-list", "ignored", "--bootstrap-server=a:9092")

    assert (result.exit_code, result.output) == (1, "")
    assert [arguments.action for arguments in done] == [Action.LIST]
    assert done[0].text("bootstrap-server") == "a:9092"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["--help", "--bogus"], "bogus is not a recognized option"),
        (["--throttle"], "Option throttle requires an argument"),
        (
            [" "],
            ONE_ACTION,
        ),
        (["--list"], "Please specify either --bootstrap-server or --bootstrap-controller"),
        (["--a\n\x1b[2J"], r"a\n\x1b[2J is not a recognized option"),
    ],
)
def test_an_error_is_the_tools_message_in_one_line_with_a_hint_and_exit_code_1(
    done: list[Arguments], words: list[str], message: str
) -> None:
    result = reassign(*words)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"ktui: {message}\n{HINT}"
    assert done == []


def test_a_value_that_an_action_cannot_use_is_refused_likewise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "ktui.cli.reassign.command.act", lambda arguments: arguments.number("throttle")
    )

    result = reassign(
        "--execute", "--bootstrap-server=a:1", "--reassignment-json-file=f", "--throttle=abc"
    )

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"ktui: Cannot parse argument 'abc' of option throttle\n{HINT}"


def test_help_goes_to_standard_output_and_is_no_failure(done: list[Arguments]) -> None:
    for words in (["--help"], ["--version", "-help", "--throttle", "x", "--zookeeper", "z:2181"]):
        result = reassign(*words)

        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == help_text("ktui reassign") + "\n"
    assert done == []


def test_without_arguments_the_help_goes_to_standard_error_with_exit_code_1() -> None:
    result = reassign()

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == help_text("ktui reassign") + "\n"


def test_the_version_is_printed_as_by_ktui_itself(done: list[Arguments]) -> None:
    result = reassign("--version", "--list")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == CliRunner().invoke(ktui, ["--version"], prog_name="ktui").stdout
    assert __version__ in result.stdout
    assert done == []


@pytest.mark.parametrize("program", ["ktui reassign", "kafka-reassign-partitions.sh"])
def test_the_help_fits_80_columns_and_names_the_program(program: str) -> None:
    text = help_text(program)

    assert text.startswith(f"Usage: {program} ACTION")
    assert text.count(f"  {program} --") == len(Action)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_the_help_groups_every_option_but_the_refused_one() -> None:
    text = help_text("ktui reassign")

    terms = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert {*SHOWN} == {term.lstrip("-").rstrip(":;") for term in terms}
    assert "zookeeper" not in text
    assert [text.index(f"\n{group}:\n") for group in Group] == sorted(
        text.index(f"\n{group}:\n") for group in Group
    )


def complete(*words: str) -> list[str]:
    """The words that a shell offers for the last one."""
    shell = get_completion_class("bash")
    assert shell is not None
    found = shell(command, {}, "ktui reassign", "_X").get_completions([*words[:-1]], words[-1])
    return [each.value if each.type == "plain" else f"<{each.type}>" for each in found]


def test_tab_completes_options_files_and_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("contexts: {prod-eu: {}, test: {}}", encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    assert complete("--cancel") == ["--cancel", "--cancel-all"]
    assert complete("--execute", "--throttle", "5", "--ti") == ["--timeout"]
    assert complete("--bootstrap-server", "a:9092", "--re") == [
        option for option in (f"--{name}" for name in SHOWN) if option.startswith("--re")
    ]
    assert complete("--execute", "--reassignment-json-file", "") == ["<file>"]
    assert complete("--list", "--state-dir", "") == ["<dir>"]
    assert complete("--list", "--context", "p") == ["prod-eu"]
    assert complete("--zoo") == []


def test_the_manual_page_has_every_option_of_the_help() -> None:
    text = page(click.Context(command, info_name="reassign")).replace("\\-", "-")

    for name in SHOWN:
        option = OPTIONS[name]
        assert f".B {f'--{name} {option.metavar}'.rstrip()}\n" in text
    assert "zookeeper" not in text
