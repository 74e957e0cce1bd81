"""No text that ktui is given can control or deceive the terminal that shows it."""

import io
import json
import sys
from pathlib import Path

import click
import pytest

from ktui.cli.context.terminal import ERASE_LINE, CleanStream, styled
from ktui.cli.main import main
from ktui.cli.output.json_form import encode

HOSTILE = "x\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[31m\u202egpj\x9b1m"
"""Sets the clipboard, clears the screen, reverses the text after it."""
ESCAPED = r"x\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[31m\u202egpj\x9b1m"


class Screen(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


def printed_by(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run ktui on a terminal; return what was printed, without ktui's own progress line."""
    screen = Screen()
    monkeypatch.setattr(sys, "argv", ["ktui", *arguments])
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code
    return screen.getvalue().replace(ERASE_LINE, "")


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KTUI_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "plan.json").write_text("{")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "check", HOSTILE),
        ("plan", "rollback", HOSTILE),
        ("start", HOSTILE, "--name", "n"),
        ("start", "plan.json", "--name", HOSTILE),
        ("start", "plan.json", "--throttle", HOSTILE),
        ("start", "plan.json", "--until", HOSTILE),
        ("start", "plan.json", "--max-partitions", HOSTILE),
        ("list", "--context", HOSTILE),
        ("list", "--command-config", HOSTILE),
        ("list", "--bootstrap-server", HOSTILE),
        ("list", "--partition", HOSTILE),
        ("watch", "--poll-interval", HOSTILE),
        ("watch", f"--{HOSTILE}"),
        (HOSTILE,),
        ("status", HOSTILE),
        ("cancel", HOSTILE),
        ("limits", HOSTILE, "--state-dir", "nowhere"),
        ("runs", "--state-dir", f"plan.json/{HOSTILE}"),
        ("replay", HOSTILE),
        ("record", "copy", HOSTILE, "to", "--redact"),
        ("pipeline", "report", HOSTILE),
        ("insights", HOSTILE),
        ("lab", "up", "--dir", f"plan.json/{HOSTILE}"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(HOSTILE, "HOSTILE"),
)
def test_hostile_text_from_the_command_line_is_printed_escaped(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    printed = printed_by(monkeypatch, *arguments)

    assert [c for c in printed if not c.isprintable() and c not in "\n\t"] == []
    assert printed.strip()


@pytest.mark.parametrize(
    "config",
    [
        'contexts: {"%s": {properties: {bootstrap.servers: "b:9092"}}}',
        'contexts: {a: {"%s": 1}}',
        '"%s": 1',
        'contexts: {a: {limits: {"%s": 1}}}',
        'contexts: {a: {throttle: "%s"}}',
        'contexts: {a: {properties: {"%s": 1}}}',
        'contexts: {a: {properties: {bootstrap.servers: "%s"}}}',
        'contexts: {a: {command_config: "%s"}}',
    ],
)
def test_hostile_text_from_the_config_file_is_printed_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    escaped = HOSTILE.encode("unicode_escape").decode()  # YAML's escapes are the same
    (tmp_path / "config.yaml").write_text(config % escaped, encoding="utf-8")

    for arguments in (("list", "--context", "a"), ("list",)):
        printed = printed_by(monkeypatch, *arguments)
        assert [c for c in printed if not c.isprintable() and c not in "\n\t"] == []
        assert printed.strip()


def test_a_hostile_file_name_is_printed_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ESCAPED in printed_by(monkeypatch, "plan", "check", HOSTILE)


def test_the_traceback_of_a_defect_is_escaped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise ValueError(HOSTILE)

    monkeypatch.setenv("KTUI_DEBUG", "1")
    monkeypatch.setattr("ktui.cli.main.ktui", broken)

    printed = printed_by(monkeypatch)

    assert "Traceback" in printed
    assert ESCAPED in printed
    assert "\x1b" not in printed


def test_ktui_keeps_its_own_newlines_styles_and_progress_line() -> None:
    screen = Screen()
    stream = CleanStream(screen)
    warning = styled("WARN", fg="yellow")

    click.echo(f"{warning}  one\ttwo\nthree", file=stream)  # type: ignore[arg-type]  # a stream
    click.echo(f"{ERASE_LINE}copying {ERASE_LINE}{warning}\x1b[33m", file=stream)  # type: ignore[arg-type]

    assert screen.getvalue() == (
        f"{click.style('WARN', fg='yellow', bold=True)}  one\ttwo\nthree\n"
        f"{ERASE_LINE}copying \\r\\x1b[K{click.style('WARN', fg='yellow', bold=True)}\\x1b[33m\n"
    )


def test_json_output_stays_valid_and_has_no_invisible_characters() -> None:
    printed = encode({HOSTILE: [HOSTILE, "\x7f", "\U000e0001"]})

    assert printed.replace("\n", "").isprintable()
    assert json.loads(printed) == {HOSTILE: [HOSTILE, "\x7f", "\U000e0001"]}
