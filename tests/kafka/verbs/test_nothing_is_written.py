"""Viewing changes nothing: every request that the commands send is counted."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from kafka.protocol.api_key import ApiKey

from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.kafka.proxy import ProxiedCluster
from support.kafka.slow_topic import slow_move
from support.views.terminal import Terminal

ENTER, ESCAPE = "\r", "\x1b"
WATCH = "v view"
SCREENS = ((ENTER, "] next"), ("b", "its partitions"), ("e", "x export"), ("?", "/ search"))
"""The key of each screen, and words that only its footer has."""


def back_from(sign: str, screen: str) -> bool:
    return WATCH in screen and sign not in screen


def proxied(lab: Lab) -> ProxiedCluster:
    return ProxiedCluster({node.id: ("127.0.0.1", node.port) for node in lab.brokers})


def test_the_live_view_sends_no_write_request_on_any_key(lab: Lab, topic_name: str) -> None:
    topic = topic_name[-12:]
    with (
        slow_move(Connection.to(lab.bootstrap_servers), topic),
        proxied(lab) as cluster,
        Terminal(
            [sys.executable, "-m", "ktui", "--bootstrap-server", cluster.bootstrap_servers]
        ) as terminal,
    ):
        terminal.wait_for(topic)
        for key, sign in SCREENS:
            terminal.send(key)
            terminal.wait_for(sign)
            terminal.send(ESCAPE)
            terminal.wait_for(partial(back_from, sign), why="the list again")
        terminal.send("v")
        terminal.wait_for("unhealthy")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0

        assert cluster.seen[ApiKey.ListPartitionReassignments] > 0
        assert cluster.seen[ApiKey.ListOffsets] > 0
        assert cluster.writes_seen == []


def test_list_doctor_and_snapshot_send_no_write_request(lab: Lab) -> None:
    with proxied(lab) as cluster:
        for words in (("list",), ("doctor",), ("snapshot", "--measure", "0")):
            command = [sys.executable, "-m", "ktui", *words]
            command += ["--bootstrap-server", cluster.bootstrap_servers]
            subprocess.run(command, check=True, capture_output=True)

        assert cluster.seen[ApiKey.ListPartitionReassignments] > 1
        assert cluster.writes_seen == []
