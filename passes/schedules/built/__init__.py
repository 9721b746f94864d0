"""Checks whether a partly lowered kernel was built for the schedule that it carries."""
