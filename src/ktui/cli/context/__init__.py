"""The basis of every verb: the config file, the cluster, the terminal, exit codes."""
