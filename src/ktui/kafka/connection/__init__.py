"""How to reach one cluster: settings, secrets, TLS and OAuth."""
