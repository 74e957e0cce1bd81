"""Certificates made on the fly by openssl: an authority, and the servers that it signs for."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_CONFIG = """
[ca]
default_ca = us
[us]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
unique_subject = no
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


class Authority:
    """Signs certificates; `pem` is the authority's own certificate, for clients to trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pem = folder / "ca.pem"
        (folder / "config").write_text(_CONFIG.format(folder=folder))
        (folder / "index").touch()
        (folder / "serial").write_text("1000\n")
        key = folder / "ca.key"
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-keyout", key, "-out", self.pem),
            *("-subj", "/CN=an authority", "-days", "2"),
        )

    def server(self, names: str, *, begins_h: float = -1, ends_h: float = 1) -> Path:
        """Make a server's certificate with its key, and return the file that holds both.

        Args:
            names: the names in openssl's syntax: "DNS:kafka-1,IP:127.0.0.1".
            begins_h: start of validity in hours from now; negative for the past.
            ends_h: end of validity in hours from now.
        """
        stem = self._folder / f"server-{len(list(self._folder.iterdir()))}"
        request, both = stem.with_suffix(".csr"), stem.with_suffix(".pem")
        certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        _openssl(
            *("req", *_NEW_KEY, "-keyout", key, "-out", request),
            *("-subj", "/CN=a server", "-addext", f"subjectAltName={names}"),
        )
        _openssl(
            *("ca", "-batch", "-notext", "-config", self._folder / "config"),
            *("-cert", self.pem, "-keyfile", self._folder / "ca.key"),
            *("-in", request, "-out", certificate),
            *("-startdate", _moment(begins_h), "-enddate", _moment(ends_h)),
        )
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return both

    def context(self, names: str, *, begins_h: float = -1, ends_h: float = 1) -> ssl.SSLContext:
        """Make the TLS context of a server with such a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server(names, begins_h=begins_h, ends_h=ends_h))
        return context


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _moment(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y%m%d%H%M%SZ")


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
