"""Use cases: what an operator asks for, from its first request to its outcome.

They get ports and callbacks, and give facts. They neither parse options nor print nor draw.
"""
