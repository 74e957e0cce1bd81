"""One file per kind of request: how to build the request and how to read the answer."""
