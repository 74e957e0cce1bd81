"""Plan files: read fast, and every mistake in one reported with its place."""
