#!/usr/bin/env bash
# Textual writes a changed cell at the right end of a widget together with everything to its left.
#
# textual 8.2.8. Widget.refresh(Region(...)) marks only that region dirty, but the update that goes to the terminal starts
# each dirty line at the left edge of the widget and ends with the region: one changed cell in column 90 of a line of 100
# costs 91 cells with all their colours, one in column 0 costs one cell. Two regions of a line are written one after the
# other, each from the left edge. Nothing is seen of it on the screen; over a slow line it is most of what is sent.
#
# Seen: unchanged cells written for one that changes: in column 0 0 and in column 90 90
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install -q textual==8.2.8 > pip.log 2>&1 || { cat pip.log; exit 1; }

cat > app.py <<'PYTHON'
import sys

from rich.segment import Segment
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Line(Widget):
    DEFAULT_CSS = "Line { width: 100; height: 1; }"
    count = 0

    def render_line(self, y):
        place = int(sys.argv[1])
        text = "." * place + str(self.count % 10) + "." * (99 - place)
        return Strip([Segment(text)])

    def next(self):
        self.count += 1
        self.refresh(Region(int(sys.argv[1]), 0, 1, 1))


class Refreshing(App):
    def compose(self):
        yield Line()

    def on_mount(self):
        self.set_interval(0.2, self.query_one(Line).next)


Refreshing().run()
PYTHON
cat > count.py <<'PYTHON'
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time


def read(master, seconds):
    until, found = time.monotonic() + seconds, b""
    while (left := until - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            found += os.read(master, 65536)
    return found


def bytes_for_each(place):
    child, master = pty.fork()
    if not child:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", COLUMNS="120", LINES="20")
        os.execv(sys.executable, [sys.executable, "app.py", str(place)])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 120, 0, 0))
    try:
        read(master, 5)
        written = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", read(master, 4))
        return round(written.count(b".") / sum(map(written.count, (b"%d" % n for n in range(10)))))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


print("unchanged cells written for one that changes: in column 0", bytes_for_each(0), "and in column 90", bytes_for_each(90))
PYTHON
seen=$(env/bin/python count.py)
echo "$seen"
[ "$seen" = "unchanged cells written for one that changes: in column 0 0 and in column 90 90" ]
