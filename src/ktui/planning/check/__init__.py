"""Plans held against their cluster before anything is sent."""
