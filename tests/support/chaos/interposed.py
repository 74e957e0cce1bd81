"""A port with hooks in some calls: to wait, change the cluster, or change the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Call = Callable[[], Awaitable[Any]]
Hook = Callable[[Call], Awaitable[Any]]


class Interposed:
    """Forwards every call to a port, through the hook of its method if there is one.

    Args:
        port: a reader or a writer.
        hooks: by the method's name; each receives the call, and awaits it when it chooses.
    """

    def __init__(self, port: Any, **hooks: Hook) -> None:
        self._port = port
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        method, hook = getattr(self._port, name), self._hooks.get(name)
        if hook is None:
            return method

        async def hooked(*args: Any, **how: Any) -> Any:
            return await hook(lambda: method(*args, **how))

        return hooked
