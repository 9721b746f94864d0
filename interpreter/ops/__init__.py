"""What each op does: one file per dialect, families of hardware ops in files of their own."""
