"""The pipeline's tables made a second time, in plain Python, from the page that defines them.

Nothing here is shared with the stages under test but the recording's own format and, as that page
says, the fold of a run.
"""
