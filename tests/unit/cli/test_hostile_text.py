"""Whatever text ktui is given, none of it drives or deceives the terminal that it is shown on."""

from __future__ import annotations

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
"""Sets the clipboard, clears the screen, turns the rest round."""
ESCAPED = r"x\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[31m\u202egpj\x9b1m"


class Screen(io.StringIO):
    """What a terminal is sent."""

    def isatty(self) -> bool:
        return True


def sent(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Call ktui on a terminal; give what the terminal got, without ktui's own line of progress."""
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
def test_what_is_repeated_of_the_command_line_is_spelt_out(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    told = sent(monkeypatch, *arguments)

    assert [c for c in told if not c.isprintable() and c not in "\n\t"] == []
    assert told.strip()


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
def test_what_is_repeated_of_the_config_file_is_spelt_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    spelt = HOSTILE.encode("unicode_escape").decode()  # YAML's escapes are the same
    (tmp_path / "config.yaml").write_text(config % spelt, encoding="utf-8")

    for arguments in (("list", "--context", "a"), ("list",)):
        told = sent(monkeypatch, *arguments)
        assert [c for c in told if not c.isprintable() and c not in "\n\t"] == []
        assert told.strip()


def test_a_hostile_name_is_seen_for_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ESCAPED in sent(monkeypatch, "plan", "check", HOSTILE)


def test_the_traceback_of_a_defect_is_cleaned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise ValueError(HOSTILE)

    monkeypatch.setenv("KTUI_DEBUG", "1")
    monkeypatch.setattr("ktui.cli.main.ktui", broken)

    told = sent(monkeypatch)

    assert "Traceback" in told
    assert ESCAPED in told
    assert "\x1b" not in told


def test_lines_styling_and_the_line_of_progress_of_its_own_stay() -> None:
    screen = Screen()
    stream = CleanStream(screen)
    warning = styled("WARN", fg="yellow")

    click.echo(f"{warning}  one\ttwo\nthree", file=stream)  # type: ignore[arg-type]  # a stream
    click.echo(f"{ERASE_LINE}copying {ERASE_LINE}{warning}\x1b[33m", file=stream)  # type: ignore[arg-type]

    assert screen.getvalue() == (
        f"{click.style('WARN', fg='yellow', bold=True)}  one\ttwo\nthree\n"
        f"{ERASE_LINE}copying \\r\\x1b[K{click.style('WARN', fg='yellow', bold=True)}\\x1b[33m\n"
    )


def test_json_stays_json_and_has_nothing_invisible_in_it() -> None:
    told = encode({HOSTILE: [HOSTILE, "\x7f", "\U000e0001"]})

    assert told.replace("\n", "").isprintable()
    assert json.loads(told) == {HOSTILE: [HOSTILE, "\x7f", "\U000e0001"]}
