#!/usr/bin/env bash
# Sail divides by zero in rows that a filter has left out before.
#
# pysail 0.7.2 with pyspark-client 4.2.0. Where two filters stand around a quotient, Sail makes one of them and computes
# the quotient for both, also in rows that the first one leaves out. Spark returns the one row. A CASE around the
# quotient helps.
#
# Seen:
#   bare: AnalysisException: Division by zero
#   in a CASE: [Row(x=10, y=2, q=5.0)]
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


rows = spark.createDataFrame([(10, 2), (10, 0)], "x int, y int")
quotient = F.col("x") / F.col("y")


def above_1(column):
    return rows.where("y > 0").withColumn("q", column).where("q > 1").collect()


print("bare:", told(lambda: above_1(quotient)))
print("in a CASE:", told(lambda: above_1(F.when(F.col("y") > 0, quotient))))
PYTHON
env/bin/python run.py 2> errors | tee seen || { cat errors; exit 1; }
diff seen - <<'SEEN'
bare: AnalysisException: Division by zero
in a CASE: [Row(x=10, y=2, q=5.0)]
SEEN
