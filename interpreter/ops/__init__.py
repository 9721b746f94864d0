"""The handlers of ops: one file per dialect; families of hardware ops have their own files."""
