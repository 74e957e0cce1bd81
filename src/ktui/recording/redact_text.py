"""Hide names in free texts: every word that is not known to be harmless.

The answer of a broker or a socket may name anything. So this is a list of words to keep, not of
words to hide.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ktui.recording.plain_words import PLAIN_WORDS

_WORD = re.compile(r"[^\s,;()\[\]{}\"'`<>=|@]+")
_ENDS = ".:!?"
_FIGURE = re.compile(
    r"[-+~]?\d+([.:]\d+)?(%|x|[kKMGT]?i?B(/s)?|ms|s|m|h|d)?"
    r"|[kKMGT]?i?B/s|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(\.\d+)?([+]\d\d:\d\d)?"
)
_NUMBERED = re.compile(r"(.+)([-:]\d+)")
"""A partition of a topic, or a port of a host."""
_SIGNS = re.compile(r"\W+|_+")
_LIST = re.compile(r"[\d,:*]*")
"""The value of a setting that throttles: a rate, or partitions and brokers."""


class WordHider:
    """Hides the words of free texts; learned names keep their kind.

    Args:
        hide: returns the replacement of a name of unknown kind.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._names: dict[str, str] = {}
        self._phrases: dict[str, str] = {}
        """Names of more than one word."""

    def learn(self, name: str, hidden: str) -> None:
        """Remember the replacement of a name."""
        of_its_kind = self._names if _WORD.fullmatch(name) else self._phrases
        of_its_kind.setdefault(name, hidden)

    def hidden(self, text: str) -> str:
        """Return a text in which every word but figures and plain words is hidden."""
        if _LIST.fullmatch(text):
            return text
        for name in sorted(self._phrases, key=len, reverse=True):
            if name in text:
                whole = map(self.hidden, text.split(name))
                return self._phrases[name].join(whole)
        return _WORD.sub(lambda found: self._word(found[0]), text)

    def _word(self, word: str) -> str:
        core = word.rstrip(_ENDS)
        rest = word[len(core) :]
        if word in self._names:
            return self._names[word]
        if core in self._names:
            return self._names[core] + rest
        if is_plain(core):
            return word
        numbered = _NUMBERED.fullmatch(core)
        if numbered is not None and numbered[1] in self._names:
            return self._names[numbered[1]] + numbered[2] + rest
        return self._hide(core) + rest


def is_plain(word: str) -> bool:
    """Whether a word is a figure, a sign, a plain word, or one of Kafka's names of errors."""
    if not word or _FIGURE.fullmatch(word) or _SIGNS.fullmatch(word):
        return True
    parts = word.split("_") if word.isupper() else [word]
    return all(part.lower() in PLAIN_WORDS for part in parts if part)
