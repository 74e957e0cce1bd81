"""Small twins and plans, rehearsed in no time."""
