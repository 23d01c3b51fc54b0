#!/bin/sh
# Starts Plimsoll with the Node that lies beside it, wherever the folder or a link to this file is.
self=$0
case $self in
  */*) ;;
  *) self=./$self ;;
esac
while [ -h "$self" ]; do
  # POSIX has no readlink: ls shows "... NAME -> TARGET".
  shown=$(ls -ld -- "$self")
  target=${shown#*"$self -> "}
  case $target in
    /*) self=$target ;;
    *) self=${self%/*}/$target ;;
  esac
done
here=$(CDPATH='' cd -- "${self%/*}/" && pwd -P) || exit 3
exec "$here/runtime/node" "$here/bin/plimsoll.js" "$@"
