#!/bin/sh
# Install ktui into .venv at the tested versions: scripts/install.sh PYTHON WHAT. uv does it where it is found, else pip.
set -eu

python=$1
what=$2
export HATCH_BUILD_NO_HOOKS=true # manual pages are made for a wheel; an editable install has none

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "ktui needs Python 3.11 or newer. Name one: make ... PYTHON=python3.12" >&2
	exit 1
}
if command -v uv > /dev/null; then
	[ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
	uv pip install --quiet --python .venv/bin/python --constraint constraints.txt --editable "$what"
else
	[ -x .venv/bin/python ] || "$python" -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable "$what"
fi
