"""A lab that is only written down: nothing of it runs."""

from __future__ import annotations

from pathlib import Path

from ktui.lab.layout import Lab, Layout, Node, Security


def written_lab(folder: Path, security: Security = Security.PLAINTEXT) -> Lab:
    """Two brokers on the ports 21001 and 21002, the controller on 21003."""
    passwords = {"admin": "a-secret", "viewer": "v-secret", "nobody": "n-secret"}
    return Lab(
        folder,
        Layout(
            kafka_version="4.3.1",
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            security=security,
            java="/opt/jdk/bin/java",
            class_path=("/jars/a.jar", "/jars/b.jar"),
            nodes=(
                Node(id=100, port=21003),
                Node(id=1, port=21001, rack="a"),
                Node(id=2, port=21002, rack="b"),
            ),
            passwords=passwords if security.by_password else {},
        ),
    )
