#!/bin/sh
# Starts "plimsoll serve" with the options given, and starts it again when it dies. A container ends
# with its first process, and all jobs in it with the container: so that is this shell, and jobs go on
# when the server is killed. Asked to stop, it stops.
server=
stopping=
stop() {
  stopping=1
  [ -z "$server" ] || kill -TERM "$server" 2>/dev/null
}
trap stop TERM INT HUP

while [ -z "$stopping" ]; do
  plimsoll serve "$@" &
  server=$!
  # Asked in between, when it had no name yet.
  [ -z "$stopping" ] || kill -TERM "$server" 2>/dev/null
  code=0
  wait "$server" || code=$?
  # A signal ends the waiting, not the server.
  while kill -0 "$server" 2>/dev/null; do
    code=0
    wait "$server" || code=$?
  done
  # 0: it was asked to stop. 2 and 3: bad options, or something is missing; again would be the same.
  case $code in 0 | 2 | 3) break ;; esac
  [ -n "$stopping" ] || sleep 1
done
exit "$code"
