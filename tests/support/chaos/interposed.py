"""A port of which some calls do something more: wait, change the cluster, answer otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Call = Callable[[], Awaitable[Any]]
Hook = Callable[[Call], Awaitable[Any]]


class Interposed:
    """Hands every call on to a port, by way of the hook that its method has, if it has one.

    Args:
        port: a reader or a writer.
        hooks: by the method's name; each is given the call, to be awaited when it likes.
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
