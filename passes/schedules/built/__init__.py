"""Whether a kernel that is lowered in part was built for the schedule that it carries."""
