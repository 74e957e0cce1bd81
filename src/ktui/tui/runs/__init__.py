"""A run as the view has it: what its journal says, for the screens to draw."""
