"""`explore`: a kernel on one HTML page, with its levels side by side, its schedule, and where each op comes from."""
