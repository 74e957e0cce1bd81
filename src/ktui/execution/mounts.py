"""What kind of file system a folder is on, as far as the machine tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")
"""Linux lists what is mounted here, in fstab(5)'s format; elsewhere nothing is known."""

_NETWORK = re.compile(
    r"nfs[0-9]*|cifs|smb.*|9p|afs|ceph|coda|ncpfs|lustre|glusterfs|gpfs|beegfs|davfs|orangefs|pvfs2"
    r"|virtiofs|vboxsf|vmhgfs|prl_fs|wekafs|juicefs"
    r"|fuse\.(sshfs|s3fs|rclone|glusterfs|ceph.*|davfs.*|curlftpfs|smb.*|gcsfuse|goofys"
    r"|juicefs|wekafs|vmhgfs-fuse|mount-s3|blobfuse2?|geesefs|seaweedfs|moosefs|mfs|nfs.*)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_network(kind: str) -> bool:
    """Whether files of such a file system are on another machine, or on this one's host."""
    return _NETWORK.fullmatch(kind) is not None


def file_system_of(path: Path) -> str | None:
    """Name the kind of file system that a path is on, or would be; None where nothing tells."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    place, kind, longest = Path(os.path.realpath(path)), None, -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:  # noqa: PLR2004 - device, mount point, kind
            point = Path(_ESCAPED.sub(_unescaped, fields[1]))
            if len(point.parts) >= longest and place.is_relative_to(point):
                kind, longest = fields[2], len(point.parts)
    return kind


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
