"""A lab that exists only as a layout: none of its nodes runs."""

from __future__ import annotations

from pathlib import Path

from ktui.lab.layout import DEFAULT_VERSION, Lab, Layout, Node, Security


def written_lab(folder: Path, security: Security = Security.PLAINTEXT) -> Lab:
    """Return a lab of two brokers on ports 21001 and 21002, and a controller on 21003."""
    passwords = {"admin": "a-secret", "viewer": "v-secret", "nobody": "n-secret"}
    return Lab(
        folder,
        Layout(
            kafka_version=DEFAULT_VERSION,
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
