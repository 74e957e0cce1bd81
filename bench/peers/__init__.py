"""`python -m bench peers`: plans of ktui beside those that other planners make of the same input.

Kafka's own tool runs on the same real brokers. The results that topicmappr's README prints are
compared as they stand there. What cannot be run here is named.
"""
