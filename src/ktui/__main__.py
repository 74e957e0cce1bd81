"""The `ktui` command, also as `python -m ktui`."""

from __future__ import annotations

from ktui.imports import import_to_stay


def main() -> None:
    """Run `ktui`."""
    import_to_stay("ktui.cli.main").main()


def reassign() -> None:
    """Run `ktui-reassign-partitions`."""
    import_to_stay("ktui.cli.main").reassign()


if __name__ == "__main__":
    main()
