"""The examples of docs/ranks.md run, and its comments quote the errors."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ranks.md"
_QUOTE = re.compile(r"^ *text = str\(error\)  # (.*)$", re.MULTILINE)


def test_the_examples_run_and_quote_their_errors() -> None:
    session: dict[str, Any] = {}
    quoted = 0
    for block in re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), session)
        for quote in _QUOTE.findall(block):
            parts = [re.escape(part.strip()) for part in quote.split("…")]
            assert re.search(".*".join(parts), session["text"], re.DOTALL), (quote, session["text"])
            quoted += 1
    assert quoted == 3
