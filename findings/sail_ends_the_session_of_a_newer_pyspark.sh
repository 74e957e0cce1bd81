#!/usr/bin/env bash
# With a PySpark that Sail does not know, its session ends, and no word is of a version.
#
# pysail 0.7.2 with pyspark 4.3.0 and 4.2.1. Sail compares the installed PySpark's version as it makes a session. With 4.3
# the session is gone by the first question, and the error is about that session alone. Nothing in the metadata of pysail
# limits the version: pip installs both.
#
# Seen:
#   4.3.0 IllegalArgumentException: invalid argument: session ID is not running
#   4.2.1 [Row(id=0)]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
install() { env/bin/pip install -q pysail==0.7.2 "pyspark[connect]==$version" pandas==2.3.3 pyarrow==26.0.1 > pip.log 2>&1 || { cat pip.log; exit 1; }; }

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


import re

import pyspark

print(pyspark.__version__, re.sub(r"[0-9a-f-]{36}", "ID", str(told(lambda: spark.range(1).collect()))))
PYTHON
for version in 4.3.0 4.2.1; do
	install
	env/bin/python run.py 2> errors || { cat errors; exit 1; }
done | tee seen
diff seen - <<'SEEN'
4.3.0 IllegalArgumentException: invalid argument: session ID is not running
4.2.1 [Row(id=0)]
SEEN
