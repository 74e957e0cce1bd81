"""What a plan would do under given limits and throttles, in figures and words."""
