"""A process that counts in a file of HDFS, which others do at the same time."""

from __future__ import annotations

import sys

from ktui.pipeline.lake.files import HadoopFiles
from ktui.pipeline.spark.session import start
from support.pipeline.sparks import SMALL


def main() -> None:
    """Add 1 to a file some times, and print how often another process came in between.

    The arguments are the URI of its folder and the number of times.
    """
    uri, times = sys.argv[1:]
    spark = start("local[1]", more=SMALL)
    files = HadoopFiles(uri, spark)
    done = refused = 0
    while done < int(times):
        state = files.state("count")
        before = int(files.read("count") or b"0")
        if files.replace("count", b"%d" % (before + 1), state):
            done += 1
        else:
            refused += 1
    spark.stop()
    sys.stdout.write(f"{refused}\n")
