"""One file per kind of request: how to build the request and how to read the answer."""

from __future__ import annotations

from ktui.kafka import defer_package_init

defer_package_init("kafka.protocol.admin", ListGroupsRequest="groups")
defer_package_init("kafka.protocol.consumer", OffsetFetchRequest="group")
