"""Runs a program that the traced one has written itself: `python run_written.py train.py --epochs 3`."""

import os
import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    # As Python does for a program that it finds itself.
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
