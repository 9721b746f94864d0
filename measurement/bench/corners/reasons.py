"""The reasons of losses, which people write after they have looked at profiles."""

from pathlib import Path

from lowtide.errors import Error


def read_reasons(path: Path) -> dict[str, tuple[str, ...]]:
    """The lines `NAME | reason | attempt | attempt` of a file, by the name of the cell. Raises Error if the file cannot
    be read, or if a line does not have these four parts."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror}; name a file of reasons [reasons-file]") from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, *texts = (part.strip() for part in line.split("|"))
        if len(texts) != 3 or not all(texts):
            raise Error(
                f"{path}, line {number}: {line!r} is not NAME | reason | attempt | attempt; give these four parts"
                " [reasons-line]"
            )
        found[name] = tuple(texts)
    return found
