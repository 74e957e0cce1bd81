"""Benchmarks of ktui, as ratios within one run. `make bench` prints them; no test asserts them.

They share the readers of Kafka's own records with the tests.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
