"""`python -m lowtide` runs the command `lowtide`, also if no script of it is installed."""

import sys

from lowtide.entry import lowtide

if __name__ == "__main__":
    sys.exit(lowtide())
