"""The location and size of the cache, as set by the environment.

`LOWTIDE_CACHE`: a folder, or `off`; by default the user's cache folder (`platformdirs`). `LOWTIDE_CACHE_SIZE`: a number
of bytes, or a number followed by K, M or G for KiB, MiB or GiB; by default 1 GiB.
"""

import os
import re
from functools import lru_cache
from pathlib import Path

import platformdirs

from lowtide.compiler.cache.store import KernelStore
from lowtide.errors import Error

FOLDER_VARIABLE = "LOWTIDE_CACHE"
SIZE_VARIABLE = "LOWTIDE_CACHE_SIZE"
OFF = "off"
DEFAULT_SIZE = "1G"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def open_store() -> KernelStore | None:
    """The cache; None if it is off. Does not access the disk. Raises Error for an invalid size."""
    given = os.environ.get(FOLDER_VARIABLE, "")
    if given == OFF:
        return None
    return _store(given, size_of(os.environ.get(SIZE_VARIABLE) or DEFAULT_SIZE))


def cache_folder() -> Path | None:
    """The folder of the cache; None if it is off. Raises as `open_store`."""
    store = open_store()
    return None if store is None else store.folder


@lru_cache(maxsize=8)
def _store(given: str, most_bytes: int) -> KernelStore:
    try:
        folder = Path(given).expanduser() if given else platformdirs.user_cache_path("lowtide") / "kernels"
    except RuntimeError as error:  # no such user, or no home
        raise Error(
            f"{FOLDER_VARIABLE}={given}: {error}; name a folder by its whole path, or `{OFF}` [cache-folder]"
        ) from None
    return KernelStore(folder.absolute(), most_bytes)


def size_of(text: str) -> int:
    """Bytes. Raises Error."""
    found = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise Error(f"{SIZE_VARIABLE}={text}: give a number of bytes, such as 512M or 2G [cache-size]")
    return int(found[1]) * _UNITS[found[2].upper()]
