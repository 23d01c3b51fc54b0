"""How long Python's pickle.load takes, and how much memory: one JSON line. Usage: load.py FILE"""

import json
import pickle
import resource
import sys
import time

started = time.perf_counter()
busy = time.process_time()
with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
seconds = time.perf_counter() - started
busy = time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "busySeconds": busy, "peakBytes": peak}))
