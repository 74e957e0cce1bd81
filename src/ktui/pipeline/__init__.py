"""Recordings into tables, by Spark. Needs the extra `pipeline` and Java; the app never does."""
