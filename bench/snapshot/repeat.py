"""Makes a large snapshot out of a small one: its events over and over, each a dict of its own, as a
longer recording would have them. Usage: repeat.py SMALL.pickle LARGE.pickle BYTES [PROTOCOL]

Addresses and times move on from one round to the next, so that the result is as consistent as the
recording was: what a round leaves allocated is freed at its end.
"""

import gc
import pickle
import sys

gc.disable()
source, target, wanted = sys.argv[1], sys.argv[2], int(float(sys.argv[3]))
protocol = int(sys.argv[4]) if len(sys.argv) > 4 else 4
with open(source, "rb") as file:
    snapshot = pickle.load(file)
trace = snapshot["device_traces"][0]
rounds = max(1, round(wanted / len(pickle.dumps(snapshot, protocol))))
spans = trace[-1]["time_us"] - trace[0]["time_us"] + 1000
left = {}
for event in trace:
    if event["action"] == "alloc":
        left[event["addr"]] = event
    elif event["action"] == "free_completed":
        left.pop(event["addr"], None)


def copied(event, turn, **changes):
    copy = dict(event, time_us=event["time_us"] + turn * spans, **changes)
    # PyTorch makes a list of frames for every allocation, and a string for every event.
    if event["action"] == "alloc":
        copy["frames"] = list(event["frames"])
    copy["compile_context"] = "".join(("N", "/A"))
    return copy


events = []
for turn in range(rounds):
    events.extend(
        copied(event, turn)
        for event in trace
        if turn == 0 or not event["action"].startswith("segment")
    )
    if turn < rounds - 1:
        for event in left.values():
            actions = ("free_requested", "free_completed")
            events += [copied(event, turn, action=action) for action in actions]
snapshot["device_traces"][0] = events
with open(target, "wb") as file:
    pickle.dump(snapshot, file, protocol=protocol)
print(len(events), "events")
