#!/bin/sh
# One way in which a program of a module behaves: the first argument names it.
case $1 in
exit) exit "$2" ;;
signal) kill -TERM $$ ;;
slow) sleep 0.1; echo done ;;
hang) echo on; sleep 1000 ;;
ignore) trap '' TERM; touch "$TMPDIR/on"; while :; do sleep 1000; done ;;
fork)
  i=0
  while [ $i -lt 20 ]; do setsid sleep 1000 & i=$((i + 1)); done
  echo "forked $i" ;;
bomb) while :; do setsid "$0" bomb & done ;;
flood) head -c 4000000 /dev/zero | tr '\0' x; echo end >&2 ;;
half) echo half; kill -KILL $$; echo done ;;
eat) all=$(head -c 300000000 /dev/zero | tr '\0' x); echo done ;;
files) i=0; while [ $i -lt 1000 ]; do : > "$TMPDIR/$i"; i=$((i + 1)); done; sleep 1000 ;;
removed)
  for i in 3 4 5 6 7 8 9; do
    eval "exec $i> \"$TMPDIR/x\""
    rm "$TMPDIR/x"
    head -c 4194304 /dev/zero >&$i
  done
  sleep 1000 ;;
bytes) for i in 1 2 3 4 5 6 7 8; do head -c 4194304 /dev/zero > "$TMPDIR/$i"; done; sleep 1000 ;;
esac
