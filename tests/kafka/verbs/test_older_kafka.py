"""A Kafka before 4.3 is read by the same verbs."""

from __future__ import annotations

from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.lab.layout import Lab


def test_an_older_kafka_is_listed_and_examined_as_one_that_ktui_is_tested_with(
    old_lab: Lab,
) -> None:
    where = ["--bootstrap-server", old_lab.bootstrap_servers]
    listed, examined = (CliRunner().invoke(ktui, [verb, *where]) for verb in ("list", "doctor"))

    assert (listed.stdout, listed.stderr) == ("Nothing is being reassigned.\n", "")
    assert "ktui is tested with Kafka 4.1" in examined.stdout
    assert "could not read" not in examined.stdout
