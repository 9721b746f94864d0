"""`lowtide cache`: lists, verifies and removes the kernels on disk."""

import re
import time
from typing import Annotated, Any

import typer

from lowtide.cli.output import counted, line, table
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF, open_store
from lowtide.compiler.cache.store import Entry, KernelStore
from lowtide.compiler.cache.tuned import clear_records, count_records
from lowtide.errors import Error

app = typer.Typer(no_args_is_help=True, help="Manage the compiled kernels on disk: LOWTIDE_CACHE=off|FOLDER.")
_MIB = 2**20
_AGES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_SHORT = 12  # characters of a key


@app.command(name="list")
def list_() -> None:
    """List the kernels, most recently used first."""
    store = _store()
    entries = _entries(store)
    _summary(store, entries)
    if entries:
        rows = [_row(entry) for entry in entries]
        table(("key", "KiB", "used", "target", "problem", "tile", "epilogue"), rows, numbers=(1, 2))


@app.command()
def verify() -> None:
    """Compare the hashes of all kernels. Exit status: 0 if all are valid, 1 if not."""
    store = _store()
    entries = _entries(store)
    _summary(store, entries)
    faults = [fault for entry in entries if (fault := store.fault(entry)) is not None]
    for fault in faults:
        line("damaged", fault)
    whole = len(entries) - len(faults)
    again = "; damaged kernels are compiled again when needed" if faults else ""
    line("verified", f"{counted(whole, 'kernel')} whole, {len(faults)} damaged{again}")
    if faults:
        raise typer.Exit(1)


@app.command()
def clear(
    tuned: Annotated[bool, typer.Option("--tuned", help="Also remove the results of `lowtide tune`.")] = False,
) -> None:
    """Remove all kernels."""
    store = _store()
    try:
        line("removed", f"{counted(store.clear(), 'kernel')} from {store.folder}")
        if tuned:
            line("", counted(clear_records(store), "tuned schedule"))
    except OSError as error:
        raise _unusable(store, error) from None


def _store() -> KernelStore:
    store = open_store()
    if store is None:
        raise Error(f"{FOLDER_VARIABLE}={OFF}: the cache is off; unset it, or name a folder [cache-off]")
    return store


def _entries(store: KernelStore) -> list[Entry]:
    try:
        return store.entries()
    except OSError as error:
        raise _unusable(store, error) from None


def _unusable(store: KernelStore, error: OSError) -> Error:
    return Error(
        f"{store.folder}: {error.strerror or error}; make it readable and writable, or set {FOLDER_VARIABLE}"
        " [cache-unusable]"
    )


def _summary(store: KernelStore, entries: list[Entry]) -> None:
    size = sum(entry.size for entry in entries) / _MIB
    line("folder", str(store.folder))
    line("holds", f"{counted(len(entries), 'kernel')}, {size:.1f} MiB of at most {store.most_bytes / _MIB:.0f} MiB")
    if (why := store.distrust()) is not None:
        line("not used", why)
    if records := count_records(store):
        line("tuned", counted(records, "schedule"))


def _row(entry: Entry) -> tuple[str, ...]:
    manifest = entry.described()
    tile = re.search(r"tile = \[(\d+), (\d+)\]", str(manifest.get("schedule")))
    age = max(0.0, time.time() - entry.used)
    return (
        entry.key[:_SHORT],
        str(-(-entry.size // 1024)),
        next((f"{age / unit:.0f} {name}" for unit, name in _AGES if age >= unit), "now"),
        str(manifest.get("target", "?")),
        _problem(manifest.get("spec")),
        "x".join(tile.groups()) if tile else "?",
        "none" if manifest.get("epilogue") is None else "traced",
    )


def _problem(spec: Any) -> str:
    if not isinstance(spec, dict):
        return "?"
    shape = "x".join("?" if spec.get(name) is None else str(spec[name]) for name in ("m", "n", "k"))
    types = dict.fromkeys(str(spec.get(name, "?")) for name in ("a", "b"))
    return f"{' x '.join(types)} {spec.get('layout', '?')} {shape} to {spec.get('d', '?')}"
