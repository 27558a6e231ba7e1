"""Write files whole or not at all, and refuse what cannot be written before any work."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from epsaudit.errors import AuditError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that a crash never leaves half a file.

    Raises `AuditError` if the file cannot be written.
    """
    path = Path(path)
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # it was renamed, or never made
            temporary.unlink()


def refuse_unwritable(*files: Path | None) -> None:
    """Raise `AuditError` if `write_whole` could not write one of these files. Call it before any expensive work.

    None stands for no file. The test creates the temporary file and missing folders and removes them again. Permissions
    alone would not reveal a full disk, a file system such as /proc, or the rights of the superuser.
    """
    for path in files:
        if path is None:
            continue
        if path.is_dir() or path.name in ("", ".."):
            raise AuditError(f"{path} cannot be written (it is a folder); give the name of a file.")
        temporary = _temporary(path)
        try:
            missing = [folder for folder in path.parents if not folder.exists()]
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary.touch()
                temporary.unlink()
            finally:
                for folder in missing:
                    with contextlib.suppress(OSError):  # the folder could not be made
                        folder.rmdir()
        except (OSError, ValueError) as error:  # ValueError if the name contains the character 0
            raise _unwritable(path, error) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _unwritable(path: Path, error: OSError | ValueError) -> AuditError:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "make room" if full else "give a folder that you may write to"
    return AuditError(f"{path} cannot be written ({getattr(error, 'strerror', None) or error}); {advice}.")
