"""Turn recordings into tables with Spark. Needs the extra `pipeline` and Java; the app does not."""
