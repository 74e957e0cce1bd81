"""The labs on which argument lists and flows are played."""

from __future__ import annotations

from ktui.lab.layout import Security
from ktui.lab.up import LabRequest
from support.reassign_tool.flows import Where
from support.reassign_tool.recording import VERSION

REQUESTS = {
    Where.PLAIN: LabRequest(brokers=3, version=VERSION),
    Where.SECURED: LabRequest(brokers=2, version=VERSION, security=Security.SASL_SSL),
    Where.LOG_DIRS: LabRequest(brokers=3, version=VERSION, log_dirs=2),
}
