#!/usr/bin/env bash
# Sail gives a column that the first of two united tables lacks no type, and numbers.
#
# pysail 0.7.2 with pyspark-client 4.2.0. unionByName(allowMissingColumns=True) fills a missing column with null. Where the
# first side lacks it, the schema says void, though rows have the second side's numbers: whatever asks for the type
# fails. Spark says bigint, and 5.
#
# Seen:
#   type: void
#   rows: [Row(k=1, n=5), Row(k=1, n=None)]
#   sum: AnalysisException: [return_type] SUM not supported for Null
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


one, other = spark.sql("SELECT 1 AS k"), spark.sql("SELECT 1 AS k, 5L AS n")
both = one.unionByName(other, allowMissingColumns=True)
print("type:", both.schema["n"].dataType.simpleString())
print("rows:", sorted(both.collect(), key=repr))
print("sum:", told(lambda: both.agg(F.sum("n")).collect()))
PYTHON
env/bin/python run.py 2> errors | tee seen || { cat errors; exit 1; }
diff seen - <<'SEEN'
type: void
rows: [Row(k=1, n=5), Row(k=1, n=None)]
sum: AnalysisException: [return_type] SUM not supported for Null
SEEN
