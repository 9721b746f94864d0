"""Edits of the schedule in the text of a level, as a user makes them by hand."""

from lowtide.dialects.tile.schedule import Schedule

_OPENING = "#tile.schedule<"


def with_schedule(text: str, fields: str) -> str:
    """The text with these fields of its schedule changed, and nothing else: `stages = 4, order = row`."""
    assert text.count(_OPENING) == 1, f"the text has {text.count(_OPENING)} schedules"
    start = text.index(_OPENING)
    end = start + len(_OPENING)
    depth = 1
    while depth:
        depth += (text[end] == "<") - (text[end] == ">")
        end += 1
    schedule = Schedule.parse(text[start:end])
    changed = schedule.set(Schedule.parse(fields).decided())
    assert changed != schedule, f"the schedule has {fields} already"
    return text[:start] + str(changed) + text[end:]
