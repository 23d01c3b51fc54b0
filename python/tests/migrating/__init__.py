"""What the tests of `plimsoll migrate` share."""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if PACKAGE not in sys.path:
    sys.path.insert(0, PACKAGE)
