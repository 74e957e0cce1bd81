"""The app: polls the cluster, hands observations to the screens, and sends commands to runs."""
