"""The app: runs the polling loop, opens the screens, and sends commands to runs."""
