"""The users of a secured lab, and their permissions."""

from __future__ import annotations

import secrets
from pathlib import Path
from zipfile import ZipFile

from ktui.lab.java import run_java, sharing_flags
from ktui.lab.layout import Lab

ADMIN = "admin"
VIEWER = "viewer"
NOBODY = "nobody"
USERS = (ADMIN, VIEWER, NOBODY)
"""A super user; a user with read permissions; a user who may only log in."""
BROKER = "broker"
"""The brokers' own user in a lab where a certificate identifies each client."""

SCRAM = "SCRAM-SHA-512"
_MOVED = "org/apache/kafka/tools/AclCommand.class"


def new_passwords() -> dict[str, str]:
    """Generate a password for each user."""
    return {user: secrets.token_urlsafe(12) for user in USERS}


def scram_credentials(lab: Lab) -> list[str]:
    """Return the users in the form of StorageTool's --add-scram; none if there are no passwords."""
    if not lab.layout.security.by_password:
        return []
    passwords = lab.layout.passwords
    return [f"{SCRAM}=[name={user},password={passwords[user]}]" for user in USERS]


def grant_viewer(lab: Lab, admin_file: Path) -> None:
    """Grant the viewer Describe and DescribeConfigs on the cluster and every topic.

    Args:
        lab: a secured lab that is up.
        admin_file: the super user's client properties.

    Raises:
        LabError: Kafka's AclCommand failed.
    """
    run_java(
        lab.layout.java,
        *sharing_flags(lab.layout.class_archive),
        *("-cp", lab.layout.joined_class_path, _acl_command(lab.layout.class_path)),
        *("--bootstrap-server", lab.bootstrap_servers, "--command-config", str(admin_file)),
        *("--add", "--allow-principal", f"User:{VIEWER}", "--cluster", "--topic", "*"),
        *("--operation", "Describe", "--operation", "DescribeConfigs"),
        doing=f"granting {VIEWER} its permissions",
    )


def _acl_command(class_path: tuple[str, ...]) -> str:
    """Return the tool's class name: a minor release of Kafka 4 moved it to another package."""
    tools = [jar for jar in class_path if Path(jar).name.startswith("kafka-tools-")]
    for jar in tools:
        with ZipFile(jar) as classes:
            if _MOVED in classes.namelist():
                return "org.apache.kafka.tools.AclCommand"
    return "kafka.admin.AclCommand"
