"""The command line: one file a verb. Builds the adapters and hands them on."""
