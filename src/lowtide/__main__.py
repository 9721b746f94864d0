"""`python -m lowtide`: the command `lowtide`, also where no script of it is installed."""

import sys

from lowtide.entry import lowtide

if __name__ == "__main__":
    sys.exit(lowtide())
