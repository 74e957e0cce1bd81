#!/usr/bin/env bash
# In Sail a percentile of figures that count several times is that of figures that count once.
#
# pysail 0.7.2 with pyspark-client 4.2.0. percentile(figure, share, frequency) takes how often each figure counts. Sail
# accepts the third argument, and computes without it; nothing says so. Spark returns 9.0 here, as of 1, 9, 9 and 9.
#
# Seen:
#   with how often: 5.0
#   without: 5.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install -q pysail==0.7.2 pyspark-client==4.2.0 pandas==2.3.3 pyarrow==26.0.1 > pip.log 2>&1 || { cat pip.log; exit 1; }

cat > run.py <<'PYTHON'
import os

os.environ["RUST_LOG"] = "off"

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

server = SparkConnectServer("127.0.0.1", 0)
server.start()
spark = SparkSession.builder.remote("sc://{}:{}".format(*server.listening_address)).getOrCreate()


def told(ask):
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


rows = spark.createDataFrame([(1.0, 1), (9.0, 3)], "figure double, times int")
print("with how often:", told(lambda: rows.select(F.percentile("figure", 0.5, F.col("times"))).first()[0]))
print("without:", told(lambda: rows.select(F.percentile("figure", 0.5)).first()[0]))
PYTHON
env/bin/python run.py 2> errors | tee seen || { cat errors; exit 1; }
diff seen - <<'SEEN'
with how often: 5.0
without: 5.0
SEEN
