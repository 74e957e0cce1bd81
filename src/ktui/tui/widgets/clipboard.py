"""The way of a copied text to the clipboard: through tmux, or by the terminal itself.

No terminal answers, so nobody can know that the text has arrived: it is "sent", never "copied".
"""

from __future__ import annotations

import asyncio
import enum
import shutil
from collections.abc import Mapping

TMUX_TIMEOUT_S = 2.0


class Route(enum.Enum):
    """What a copied text is handed to."""

    TMUX = enum.auto()
    TERMINAL = enum.auto()
    """The terminal takes it by OSC 52; one that knows nothing of it ignores it."""
    NONE = enum.auto()
    """The terminal is known to ignore it."""


def clipboard_route(environ: Mapping[str, str]) -> Route:
    """Return the way to the clipboard for a program in this environment."""
    if environ.get("TMUX") and shutil.which("tmux", path=environ.get("PATH")):
        return Route.TMUX
    terminal = environ.get("TERM_PROGRAM")
    return Route.NONE if terminal == "Apple_Terminal" else Route.TERMINAL


async def load_tmux_buffer(text: str) -> bool:
    """Make a text tmux's newest buffer, and have tmux send it to its own terminal.

    Returns:
        Whether tmux took it; one older than 3.2 knows no `-w`.
    """
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        tmux = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=pipe, stdout=nowhere, stderr=nowhere
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(tmux.communicate(text.encode()), TMUX_TIMEOUT_S)
    except TimeoutError:
        tmux.kill()
        await tmux.wait()
    return tmux.returncode == 0
