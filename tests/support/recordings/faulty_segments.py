"""Files that have a segment's name and some fault."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from zlib import crc32

from support.pipeline.lake_recordings import looks, record


def summed(text: bytes) -> bytes:
    """Return a line as another program may write it, with its checksum and its newline."""
    text = text.rstrip().removesuffix(b"}")
    return text + b',"crc":"%08x"}\n' % crc32(text)


def unsummed(line: bytes) -> bytes:
    """Return a line of a recording without its checksum, so that it can be changed."""
    return line[: line.rindex(b',"crc"')] + b"}"


def put_faulty(folder: Path, scratch: Path) -> dict[str, str]:
    """Write files with one fault each into a folder; return the message expected for each name."""
    folder.mkdir(parents=True, exist_ok=True)
    (segment,) = record(scratch / "whole", looks(5)).iterdir()
    content = segment.read_bytes()
    head, *rest = gzip.decompress(content).splitlines(keepends=True)

    def put(name: str, *texts: bytes) -> None:
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b"".join(texts), 9))

    def with_head(name: str, what: bytes, other: bytes) -> None:
        assert what in head
        put(name, summed(unsummed(head.replace(what, other))), *rest)

    (folder / "empty.jsonl.gz").touch()
    (folder / "a:b.jsonl.gz").write_bytes(content)
    (folder / "cut.jsonl.gz").write_bytes(content[: len(content) // 2])
    (folder / "garbage.jsonl.gz").write_bytes(os.urandom(8).join([b"garbage"] * 100))
    os.mkfifo(folder / "fifo.jsonl.gz")
    os.mkfifo(folder / "left.jsonl.gz.tmp")
    (folder / "folder.jsonl.gz").mkdir()
    (folder / "gone.jsonl.gz").symlink_to("nowhere")
    Path(os.fsdecode(bytes(folder / "name") + b"\xff.jsonl.gz")).write_bytes(content)
    with_head("newer", b'"schema_version":1', b'"schema_version":7')
    with_head("headless", b'"kind":"head"', b'"kind":"lost","reason":""')
    with_head("nowhere", b'"cluster_id":"a-cluster"', b'"cluster_id":""')
    with_head("long-id", b'"cluster_id":"a-cluster"', b'"cluster_id":"' + b"%" * 100 + b'"')
    with_head("old-time", b'"ms":0', b'"ms":-9000000000000')
    put("bomb", head, b"\n" * 20_000_000)
    figure = b'{"kind":"look","seq":1,"at":1767268800000,"ms":0,"took_ms":1,"whole":true,'
    figure += b'"controller":1,"names":[[0,"huge",0,null]],'
    figure += b'"states":[[0,[1],[1],1,1,[],[],[],null,true]],"brokers":{"1":{"id":1}},'
    figure += b'"broker_configs":{"1":{"follower_throttle_rate":1' + b"0" * 30 + b"}}}"
    put("figure", head.replace(head, summed(unsummed(head))), summed(figure))
    return {
        "empty.jsonl.gz": "there is nothing in it",
        "cut.jsonl.gz": "it is cut off",
        "garbage.jsonl.gz": "it cannot be unzipped from here on",
        "fifo.jsonl.gz": "a FIFO, not a file",
        "left.jsonl.gz.tmp": "a FIFO, not a file",
        "folder.jsonl.gz": "cannot be read: Is a directory",
        "gone.jsonl.gz": "cannot be read: No such file or directory",
        "name\N{REPLACEMENT CHARACTER}.jsonl.gz": "its name is not UTF-8; rename it",
        "newer.jsonl.gz": "written by a newer ktui, as version 7",
        "headless.jsonl.gz": "there is no head before it",
        "nowhere.jsonl.gz": "its cluster's id can be no folder's name",
        "long-id.jsonl.gz": "its cluster's id can be no folder's name",
        "old-time.jsonl.gz": "not a line that this ktui knows",
        "bomb.jsonl.gz": "its checksum is missing or wrong",
        "a:b.jsonl.gz": "its name has a colon, which Spark cannot read",
        "figure.jsonl.gz": "a figure in it is larger than a table holds",
    }
