"""Tab completes verbs, options and names, and never disturbs the line being typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ktui.cli.main import REQUEST, complete, ktui, main


@pytest.fixture(autouse=True)
def user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with two runs and two contexts."""
    for run in ("drain-4", "move"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("contexts: {prod-eu: {}, test: {}}", encoding="utf-8")
    monkeypatch.setenv("KTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))


@pytest.fixture
def press_tab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PressTab:
    return PressTab(monkeypatch, capsys)


class PressTab:
    """Completes a command line as bash asks for it; returns the words that it offers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._environment = monkeypatch
        self._printed = capsys

    def __call__(self, line: str) -> list[str]:
        self._environment.setenv("COMP_WORDS", line)
        self._environment.setenv("COMP_CWORD", str(len(f"{line}.".split()) - 1))
        complete(ktui, "bash_complete")
        printed = self._printed.readouterr()
        assert printed.err == ""
        return [each.partition(",")[2] for each in printed.out.split("\n") if each]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ktui st", ["start", "status"]),
        ("ktui plan re", ["remaining", "replication-factor"]),
        ("ktui plan spread --by ", ["bytes", "replicas", "leaders"]),
        ("ktui runs ", ["export", "import"]),
        ("ktui pipeline ch", ["check"]),
        ("ktui start --on-s", ["--on-stall"]),
        ("ktui start --on-stall ", ["wait", "cancel"]),
        ("ktui --boot", ["--bootstrap-server"]),
        ("ktui completion z", ["zsh"]),
    ],
)
def test_tab_completes_verbs_options_and_choices(
    press_tab: PressTab, line: str, words: list[str]
) -> None:
    assert press_tab(line) == words


def test_tab_after_ktui_offers_the_verbs_in_the_help_and_no_hidden_one(press_tab: PressTab) -> None:
    offered = press_tab("ktui ")

    assert {"watch", "start", "completion"} <= set(offered)
    assert "engine" not in offered


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ktui status ", ["drain-4", "move"]),
        ("ktui cancel dr", ["drain-4"]),
        ("ktui plan rollback m", ["move"]),
        ("ktui replay m", ["m", "move"]),  # the first stands for files
        ("ktui --context ", ["prod-eu", "test"]),
        ("ktui start --context=p", ["prod-eu"]),
        ("ktui demo hot", ["hot", "hot-leader"]),
    ],
)
def test_tab_completes_runs_contexts_and_scenarios(
    press_tab: PressTab, line: str, words: list[str]
) -> None:
    assert press_tab(line) == words


def test_tab_completes_runs_of_the_state_directory_on_the_line(
    press_tab: PressTab, tmp_path: Path
) -> None:
    (tmp_path / "other" / "runs" / "here").mkdir(parents=True)

    assert press_tab(f"ktui pause --state-dir {tmp_path / 'other'} ") == ["here"]


@pytest.mark.parametrize("line", ["ktui --context ", "ktui nonsense x", "ktui 'open"])
def test_a_line_that_cannot_be_completed_prints_nothing(
    press_tab: PressTab, tmp_path: Path, line: str
) -> None:
    (tmp_path / "config.yaml").write_text("contexts: [", encoding="utf-8")

    assert press_tab(line) == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_runs_beside_files(tmp_path: Path) -> None:
    program = tmp_path / "ktui"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ktui "$@"\n')
    program.chmod(0o755)
    script = (
        f'source <({program} completion bash); COMP_WORDS=(ktui replay ""); COMP_CWORD=2;'
        f' _ktui_completion {program} 2> /dev/null; echo "${{COMPREPLY[@]}}"'
    )  # outside a command line that is being typed, bash complains of compopt

    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True)

    assert done.stdout == "drain-4 move\n"


def test_a_request_for_an_unknown_shell_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    complete(ktui, "tcsh_complete")

    assert capsys.readouterr() == ("", "")


def test_ktui_answers_a_completion_request_from_a_shell_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(REQUEST, "fish_complete")
    monkeypatch.setenv("COMP_WORDS", "ktui start --dry")
    monkeypatch.setenv("COMP_CWORD", "--dry")

    main()

    assert capsys.readouterr().out == (
        "plain,--dry-run\tShow what would be sent, and send nothing.\n"
    )
