"""The command `lowtide`: one file per subcommand, and what they share."""
