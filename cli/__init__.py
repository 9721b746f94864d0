"""The command `lowtide`: one file per subcommand, and shared code."""
