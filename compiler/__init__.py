"""From a spec to a saved kernel: the front end, the driver that runs the passes, and the command line."""
