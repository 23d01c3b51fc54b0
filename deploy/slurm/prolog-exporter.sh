#!/bin/sh
# A prolog for Slurm (Prolog= in slurm.conf), for nodes on which systemd does not start the exporter:
# the first job of a node starts it, and it goes on after the job. It never fails a job.
#
#   PLIMSOLL      the program (/usr/local/bin/plimsoll)
#   PLIMSOLL_PORT where it listens (9847)
#   PLIMSOLL_LOG  its log (/var/log/plimsoll-exporter.log)
plimsoll=${PLIMSOLL:-/usr/local/bin/plimsoll}
port=${PLIMSOLL_PORT:-9847}
log=${PLIMSOLL_LOG:-/var/log/plimsoll-exporter.log}

[ -x "$plimsoll" ] || exit 0
# Of two at the same time the second finds the port in use and ends by itself. A session of its own,
# and none of the job's output: Slurm waits for neither.
setsid "$plimsoll" exporter --host "${PLIMSOLL_HOST:-0.0.0.0}" --port "$port" \
  --node "${SLURMD_NODENAME:-$(hostname)}" >>"$log" 2>&1 </dev/null &
exit 0
