"""The pipeline's tables computed a second time, in plain Python, from the page that defines them.

These modules share only two things with the stages under test: the recording format and, as that
page says, the fold of a run.
"""
