"""The throttles of a run: what they should be, and the requests that set them."""
