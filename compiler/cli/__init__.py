"""The command `lowtide`: one file a subcommand, and what they share."""
