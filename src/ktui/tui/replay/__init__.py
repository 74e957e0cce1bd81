"""The live view on a recording."""
