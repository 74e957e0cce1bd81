#!/bin/sh
# Make the two environments of `make test-sail`: .venv-sail/client, without Spark, and .venv-sail/whole, with both engines.
set -eu

python=$1
tests='pytest>=8.4,<9 pytest-xdist pytest-asyncio pytest-textual-snapshot hypothesis deltalake polars selenium'
for each in client whole; do
	here=.venv-sail/$each
	[ -x "$here/bin/python" ] || "$python" -m venv "$here"
	what='.[pipeline-sail]'
	more=
	if [ "$each" = whole ]; then
		what='.[pipeline]'
		more='pyspark[connect]==4.2.* pysail==0.7.*'
	fi
	# the constraints name a PySpark that Sail does not take
	grep -v '^pyspark==' constraints.txt > "$here/constraints.txt"
	# shellcheck disable=SC2086 # a list of words
	HATCH_BUILD_NO_HOOKS=true "$here/bin/python" -m pip install --quiet --disable-pip-version-check \
		--constraint "$here/constraints.txt" --editable "$what" $tests $more
done
