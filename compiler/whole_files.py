"""Files that are written completely or not at all."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from lowtide.errors import Error


def check_writable(path: Path) -> None:
    """Raise Error for a file that `write_whole` could not write, before its content is computed."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Error(
            f"cannot write {path}; name a file in a writable folder that exists or can be created [file-writable]"
        )


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one beside it, so that no reader and no crash sees half of it.

    A symbolic link is followed; a device or a pipe is written to directly. Raises Error if the folder or the file
    cannot be written.
    """
    try:
        data = content.encode() if isinstance(content, str) else content
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        # The name is chosen before the file is created, so that an interrupt never leaves it behind.
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            os.replace(temporary, target)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise Error(
            f"cannot write {path}: {getattr(error, 'strerror', None) or error}; name a writable folder that exists or "
            "can be created [file-written]"
        ) from None
