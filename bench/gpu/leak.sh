#!/bin/sh
# A real leak on a real GPU, watched from outside by a real plimsoll until it is out of memory:
# when was it forecast, and what was it called? Usage: leak.sh PLIMSOLL [GIB_PER_SECOND] [OUT_FOLDER]
set -eu
plimsoll=$1
rate=${2:-2}
out=${3:-$(mktemp -d)}
here=$(dirname "$0")

python3 "$here/leak.py" "$rate" >"$out/leak.log" &
leak=$!
# Importing torch takes a while; the process is on the GPU once it has said that it started.
until grep -q startedAt "$out/leak.log"; do sleep 0.2; done
"$plimsoll" oom --devices 0 --monitor --duration 0 --json >"$out/oom.json" 2>"$out/oom.log" &
oom=$!
"$plimsoll" profile --devices 0 --duration 0 --output "$out/profile.json" --html "$out/profile.html" \
  >"$out/profile.log" 2>&1 &
profile=$!
"$plimsoll" leak --check --devices 0 --pid "$leak" --duration 30 --json >"$out/leak.json" || true
"$plimsoll" devices --json >"$out/devices.json"
wait "$leak" || true
kill -INT "$oom" "$profile" || true
wait "$oom" || true
wait "$profile" || true
cat "$out/leak.log"
tail -n 40 "$out/oom.log"
