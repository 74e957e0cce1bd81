"""Several options of a command line, passed to a verb as one argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

R = TypeVar("R")
Verb = Callable[..., R]


def grouped(
    argument: str,
    make: Callable[..., object],
    options: Mapping[str, Callable[[Verb[Any]], Verb[Any]]],
) -> Callable[[Verb[R]], Verb[R]]:
    """Return a decorator that adds options to a verb, and passes them as one argument.

    Args:
        argument: the name of that argument.
        make: makes its value from the options, each by its name.
        options: each option of click by its name, in the order of the help.
    """

    def decorate(verb: Verb[R]) -> Verb[R]:
        @wraps(verb)
        def with_argument(**values: Any) -> R:
            given = {name: values.pop(name) for name in options}
            return verb(**values, **{argument: make(**given)})

        decorated: Verb[R] = with_argument
        for option in reversed(options.values()):
            decorated = option(decorated)
        return decorated

    return decorate
