"""The Watch screen: one row per partition of the chosen view."""
