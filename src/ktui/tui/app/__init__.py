"""The app: it polls, hands what it sees to the screens, and asks things of runs."""
