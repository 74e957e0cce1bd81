"""`python -m ktui`: the same as the `ktui` command."""

from ktui.cli.main import main

if __name__ == "__main__":
    main()
