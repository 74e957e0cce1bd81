"""The connection to one cluster: settings, secrets, TLS and OAuth."""
