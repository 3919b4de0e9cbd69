"""Files appear whole or not at all: temporary file in the same folder, fsync, rename, fsync the folder."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mocosearch_index.errors import DiskFull, NotWritable, StorageFailed
from mocosearch_index.paths import shown

PARTIAL = ".partial"  # the suffix of a file that is still being written
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
_MISNAMED = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.EFBIG}
_BROKEN = {errno.EIO, errno.ESTALE, errno.ENOTCONN}
_ROOM = 1 << 20
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # some network file systems cannot sync a folder


def atomic_write(path: Path, data: bytes) -> None:
    """Replace the content of `path` by `data`, durably; raises DiskFull and then leaves the old content."""
    with atomic_path(path) as partial:
        partial.write_bytes(data)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on success it is renamed to `path`, on an error removed."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    with disk_errors_named(path.parent):
        try:
            yield partial
            sync_file(partial)
            partial.replace(path)
        except BaseException as error:
            full = _means_full(error, partial)
            with suppress(FileNotFoundError):
                partial.unlink()
            if full:
                raise disk_full(path.parent) from error
            raise
        sync_folder(path.parent)


def _means_full(error: BaseException, partial: Path) -> bool:
    """Tell whether it is a full disk that writers in other languages (safetensors, torch.save) report in their way."""
    if isinstance(error, OSError) or not isinstance(error, Exception):
        return False
    if any(os.strerror(code) in str(error) for code in _FULL):
        return True
    try:  # has the file room to grow?
        with partial.open("ab") as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        return error.errno in _FULL
    return False


def remove_partials(folder: Path) -> None:
    """Remove what a killed process left half-written in `folder`; only while nobody else writes there."""
    for partial in folder.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Wait until the content of `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until names created in or renamed into `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors_named(folder: Path) -> Iterator[None]:
    """Turn errors of the system that a person can mend into typed ones that name the disk or folder."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(folder) from error
        if error.errno in _FORBIDDEN:
            raise not_writable(folder) from error
        if error.errno in _MISNAMED:
            raise NotWritable(
                f"Cannot write to {shown(folder)} ({error.strerror}): choose another name or folder."
            ) from error
        if error.errno in _BROKEN:
            raise storage_failed(folder, str(error.strerror)) from error
        raise


def disk_full(folder: Path) -> DiskFull:
    """Return the error that says that the disk of `folder` is full."""
    return DiskFull(
        f"No space left on the disk of {shown(folder)}: free some space and try again; everything saved before is kept."
    )


def not_writable(folder: Path) -> NotWritable:
    """Return the error that says that nothing can be written to `folder`."""
    return NotWritable(f"Cannot write to {shown(folder)}: change its permissions or choose another folder.")


def storage_failed(folder: Path, reason: str) -> StorageFailed:
    """Return the error that says that the disk of `folder` failed with `reason`."""
    return StorageFailed(f"The disk of {shown(folder)} failed ({reason}): check the drive and its connection.")
