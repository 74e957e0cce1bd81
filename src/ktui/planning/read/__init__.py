"""Reading of plan files: fast, with every mistake reported at its position."""
