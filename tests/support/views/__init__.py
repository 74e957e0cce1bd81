"""The app and single screens, driven by keys."""
