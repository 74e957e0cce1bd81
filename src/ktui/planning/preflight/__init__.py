"""The preflight: effects of a plan under limits and throttles, in figures and words."""
