"""The Watch screen: a row for each partition that matters."""
