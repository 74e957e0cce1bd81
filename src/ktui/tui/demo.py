"""The app on a simulated cluster: says that it is one, tells the story, and can play it again."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual.binding import Binding, BindingType

from ktui.tui.actions import APP_BINDINGS
from ktui.tui.app import KtuiApp
from ktui.tui.polling import Observations
from ktui.tui.widgets.status_header import Status

_STORY_S = 15.0
"""How long the story stays on the screen by itself."""


class Story(msgspec.Struct, frozen=True):
    """What is shown of a scenario beside its cluster."""

    name: str
    title: str
    about: str
    speed: float
    """How many of the cluster's seconds pass in one of ours."""


class DemoApp(KtuiApp):
    """Shows a story. `again` says, once the app has ended, whether it is to be played anew."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *APP_BINDINGS,
        Binding("i", "tell_story", "the story", show=False, tooltip="Tell what happens here"),
        Binding(
            "R", "play_again", "play again", show=False, tooltip="Play the story from the start"
        ),
    ]

    def __init__(self, source: Observations, *, story: Story, **how: Any) -> None:
        super().__init__(source, cluster_name=story.name, read_only=True, **how)
        self._story = story
        self.again = False
        self.watch_screen.when_quiet = (
            f"This cluster is simulated: {story.title}.\n{story.about}",
            "i  what happens here\nR  play it again\nktui demo --list  names the other stories",
        )

    def on_mount(self) -> None:
        """Tell the story when it begins."""
        self.action_tell_story()

    def cluster_status(self) -> Status:
        """Tell how the cluster is now, and that it is simulated."""
        return msgspec.structs.replace(super().cluster_status(), simulated_speed=self._story.speed)

    def action_tell_story(self) -> None:
        """Tell what happens here."""
        self.notify(self._story.about, title=self._story.title, timeout=_STORY_S, markup=False)

    def action_play_again(self) -> None:
        """End, and let whoever runs the app play the story anew."""
        self.again = True
        self.exit()

    def action_quit_view(self) -> None:
        """Close the view, and with it the cluster."""
        words = "ktui: the simulated cluster has ended with its view."
        self.exit(message=Text(f"{words} `ktui demo --list` names every story."))

    def report_refusals(self, refused: tuple[str, ...]) -> None:
        """Say what the cluster did not accept of the plan."""
        if refused:
            more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            self.notify(
                f"{refused[0]}{more}", title="Not accepted", severity="warning", markup=False
            )
