"""Plans made from what an operator wants: drain these brokers, fill those, three replicas."""
