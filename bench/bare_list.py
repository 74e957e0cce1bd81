"""The least that a script spends to list reassignments with the bare client.

`python -m bench.bare_list HOST:PORT` prints how many there are.
"""

from __future__ import annotations

import sys
from typing import Any

from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import ListPartitionReassignmentsRequest


def main(bootstrap: str) -> None:
    """List the reassignments, and print their number."""
    net: Any = NetworkSelector()
    manager: Any = KafkaConnectionManager(net, bootstrap_servers=bootstrap.split(","))
    net.start()
    manager.bootstrap()
    listed = manager.run(_list, manager)
    print(sum(len(topic.partitions) for topic in listed.topics))
    manager.run(manager.close)
    net.stop()
    net.close()


async def _list(manager: Any) -> Any:
    return await manager.send(ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None))


if __name__ == "__main__":
    main(sys.argv[1])
