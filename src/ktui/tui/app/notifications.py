"""What the app tells in a line, in place of the keys: no row is ever covered."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.timer import Timer

from ktui.tui.widgets.footer import FooterKeys, Notification

_FOR_S = {"information": 6.0, "warning": 8.0, "error": 12.0}


class NewsApp(App[None]):
    """The part of the app that tells news; each stays for a while, or until one as grave comes.

    What is less grave waits until that while is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.news: Notification | None = None
        """What is told at the moment."""
        self._waiting: tuple[Notification, float] | None = None
        self._until: Timer | None = None

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: str = "information",
        timeout: float | None = None,
        **_how: Any,
    ) -> None:
        """Tell something in a line, as it is."""
        words = ": ".join(filter(None, (title, message)))
        news, lasts_s = Notification(" ".join(words.split()), severity), timeout or _FOR_S[severity]
        if self.news is not None and _FOR_S[severity] < _FOR_S[self.news.severity]:
            self._waiting = (news, lasts_s)
        else:
            self._show_news(news, lasts_s)

    def clear_notifications(self) -> None:
        """Let go of all that is told, or waits to be."""
        self._waiting = None
        self._show_news(None)

    def _next_news(self) -> None:
        waiting, self._waiting = self._waiting, None
        self._show_news(*waiting or (None,))

    def _show_news(self, news: Notification | None, lasts_s: float = 0.0) -> None:
        if self._until is not None:
            self._until.stop()
        self._until = self.set_timer(lasts_s, self._next_news) if news is not None else None
        self.news = news
        for screen in self.screen_stack:
            for keys in screen.query(FooterKeys):
                keys.show_news(news)

    def tell(self, words: str, **how: Any) -> None:
        """Tell the operator something, as it is."""
        self.notify(words, **how)
