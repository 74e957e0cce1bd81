"""What every verb starts from: the config file, the cluster, the terminal, exit codes."""
