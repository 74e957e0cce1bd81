"""Stories for a simulated cluster: read from YAML, set up and carried out."""
