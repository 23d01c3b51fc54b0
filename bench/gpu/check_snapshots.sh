#!/bin/sh
# Reads the snapshots of record_snapshots.py with plimsoll and holds every figure against what the
# process itself reported. Usage: check_snapshots.sh PLIMSOLL FOLDER; ends with 1 where one differs.
set -u
plimsoll=$1
folder=$2
failed=0
for told in "$folder"/*.json; do
  case $told in *.answer.json) continue ;; esac
  name=$(basename "$told" .json)
  answer="$folder/$name.answer.json"
  started=$(date +%s)
  "$plimsoll" snapshot "$folder/$name.pickle" --json >"$answer"
  code=$?
  ended=$(date +%s)
  if [ "$code" -gt 1 ]; then
    echo "$name: plimsoll ended with $code"
    failed=1
    continue
  fi
  python3 - "$name" "$told" "$answer" "$((ended - started))" "$code" <<'PYTHON' || failed=1
import json
import sys

name, told, answer, seconds, code = sys.argv[1:]
with open(told) as file:
    told = json.load(file)
with open(answer) as file:
    answer = json.load(file)
pairs = [
    ("allocated", "allocatedBytes"),
    ("reserved", "reservedBytes"),
    ("active", "activeBytes"),
    ("inactive_split", "inactiveSplitBytes"),
    ("requested", "requestedBytes"),
    ("peak_allocated", "peakAllocatedBytes"),
    ("peak_reserved", "peakReservedBytes"),
    ("events", "events"),
]
wrong = []
for theirs, ours in pairs:
    # A ring that lost its beginning does not know the peaks of the whole run.
    if name == "ring" and theirs.startswith("peak"):
        continue
    if told[theirs] != answer[ours]:
        wrong.append(f"{ours} {answer[ours]}, the process said {told[theirs]}")
if told["ooms"] != len(answer["outOfMemory"]):
    wrong.append(f"{len(answer['outOfMemory'])} out-of-memory events, the process said {told['ooms']}")
if answer["recording"]["driftBytes"] != 0:
    wrong.append(f"the recording ends {answer['recording']['driftBytes']} bytes off")
causes = [event["cause"] for event in answer["outOfMemory"]]
if name == "fragmented" and causes != ["fragmentation"]:
    wrong.append(f"the cause is {causes}")
simulated = answer["whatIf"] if answer["whatIf"] == "unknown" else answer["whatIf"]["asRecorded"]["peakReservedBytes"]
print(
    f"{name}: {'equal' if not wrong else 'DIFFERS'}, {answer['events']} events, {seconds} s, "
    f"exit {code}, leaks {len(answer['leaks'])}, causes {causes}, "
    f"peak reserved {answer['peakReservedBytes']}, simulated {simulated}"
)
for line in wrong:
    print(f"  {line}")
sys.exit(1 if wrong else 0)
PYTHON
done
exit "$failed"
