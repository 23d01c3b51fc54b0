"""What the tests of the SDK share."""

import os
import sys

# It ends a test that hangs; a machine that is busy on every core is slow, and no fault.
HANG_SECONDS = 600
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if PACKAGE not in sys.path:
    sys.path.insert(0, PACKAGE)
