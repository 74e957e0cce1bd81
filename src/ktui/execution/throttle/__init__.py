"""The throttles of a run: the desired settings, and the requests that set them."""
