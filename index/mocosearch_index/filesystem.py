"""What kind of file system a folder is on.

SQLite's write-ahead log needs memory shared by all who open the file, which a network drive does not give.
"""

import os
from pathlib import Path

# Names as in /proc/mounts. 9p is how WSL sees Windows drives.
_NETWORK = {
    "9p",
    "afs",
    "ceph",
    "cifs",
    "davfs",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
}
_MOUNTS = Path("/proc/mounts")


def on_network_drive(folder: Path) -> bool:
    """Tell whether `folder` is on a network drive, as far as the system says (only Linux does)."""
    if not _MOUNTS.exists():
        return False
    kind = file_system_of(os.fsencode(folder.resolve()), _MOUNTS.read_bytes())
    return kind in _NETWORK or kind.startswith("fuse.")  # sshfs, rclone and the like


def file_system_of(folder: bytes, mounts: bytes) -> str:
    """Return the type of the mount in `mounts` (text of /proc/mounts) that holds the absolute `folder`."""
    found, kind = b"", ""
    for line in mounts.splitlines():
        _, point, name = line.split(b" ")[:3]
        point = _unescaped(point)
        inside = folder == point or folder.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(found):  # of mounts at the same place the last one is on top
            found, kind = point, name.decode("ascii", "replace")
    return kind


def _unescaped(field: bytes) -> bytes:
    r"""Undo the octal escapes of /proc/mounts: a space is \040, a backslash \134."""
    head, *rest = field.split(b"\\")
    return head + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest)
