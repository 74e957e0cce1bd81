"""The attached run, as the screens draw it."""
