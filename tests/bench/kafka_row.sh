#!/usr/bin/env bash
# How many times faster partlog is than Kafka's console producer and console consumer, in the same run on the same input.
#
#   PARTLOG=build/cmd/partlog tests/bench/kafka_row.sh [LINES [ROUNDS]]
#
# LINES lines of about 100 bytes (default 10 million), one partition, no compression; medians of ROUNDS rounds (default 3), in
# each of which either side has its turn. Kafka: one broker on loopback and its tools, all with their defaults. Ours: `--sync none`,
# since a broker does not sync either. Needs a C++ compiler (for gen.cpp), Maven and a JDK; works in TMPDIR (12 GB for 10 million).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kafka=$here/../kafka/kafka
lines=${1:-10000000}
rounds=${2:-3}
partlog=$(realpath "${PARTLOG:?must name the program}")
export KAFKA_JVM_OPTS=${KAFKA_JVM_OPTS:--Xmx2g}
work=$(mktemp -d "${TMPDIR:-/tmp}/partlog-kafka-row.XXXXXX")
finish() {
  "$kafka" stop "$work/broker" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

"$kafka" fetch >/dev/null || exit 77
"${CXX:-c++}" -O2 -o "$work/gen" "$here/gen.cpp"
"$work/gen" 100 "$lines" >"$work/in"
address=$("$kafka" start "$work/broker" log.segment.delete.delay.ms=0)

# timed NAME COMMAND...: appends the seconds that the command takes to $work/NAME.
timed() {
  local name=$1 begin=$EPOCHREALTIME; shift
  "$@" || { echo "kafka_row: $name failed: $*" >&2; exit 1; }
  echo "$begin $EPOCHREALTIME" | awk '{printf "%.3f\n", $2 - $1}' >>"$work/$name"
}
median() { sort -n "$work/$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# Neither side pays for the other's dirty pages, nor, on a virtual machine, for memory that the host has yet to provide: the pages
# that this file gives back are the next to be used.
settle() {
  sync -f "$work"
  cat "$work/in" >"$work/settling"
  rm "$work/settling"
}

# The tools say how many they handled; what they consume is counted once, outside of the timing.
kafka_produce() { "$kafka" produce --bootstrap-server "$address" --topic "$topic" <"$work/in" >/dev/null; }
kafka_consume() { "$kafka" consume --bootstrap-server "$address" --topic "$topic" --from-beginning --max-messages "$lines" >/dev/null 2>&1; }
our_produce() { "$partlog" -q -d "$work/store" produce "$topic" --sync none <"$work/in"; }
our_consume() { "$partlog" -q -d "$work/store" consume "$topic" >/dev/null; }

for round in $(seq "$rounds"); do
  topic=row-$round
  "$kafka" topics --bootstrap-server "$address" --create --topic "$topic" --partitions 1 >/dev/null
  "$partlog" -q -d "$work/store" create-topic "$topic"
  settle
  timed kafka_produce kafka_produce
  settle
  timed our_produce our_produce
  settle
  timed kafka_consume kafka_consume
  timed our_consume our_consume
  if [ "$round" = 1 ]; then
    stored=$("$kafka" get-offsets --bootstrap-server "$address" --topic "$topic" | cut -d : -f 3)
    [ "$stored" = "$lines" ] || { echo "kafka_row: Kafka holds $stored records" >&2; exit 1; }
    "$partlog" -q -d "$work/store" consume "$topic" | cmp - "$work/in"
  fi
  "$kafka" topics --bootstrap-server "$address" --delete --topic "$topic"
  "$partlog" -q -d "$work/store" delete-topic "$topic" --yes
done

printf '%s lines, median of %s round(s); times faster than Kafka %s\n' "$lines" "$rounds" "$(basename "$("$kafka" fetch)")"
for what in produce consume; do
  awk -v what="$what" -v theirs="$(median "kafka_$what")" -v ours="$(median "our_$what")" -v must="$([ $what = produce ] && echo 30 || echo 25)" \
    'BEGIN {printf "%-8s %6.1f times   (console %sr %.2f s, partlog %.3f s; must %d, aim 60)\n", what, theirs / ours, what, theirs, ours, must}'
done
