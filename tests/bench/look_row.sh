#!/usr/bin/env bash
# How fast `dump` and `verify` are beside Kafka's dump tool, cat, and a bare CRC-32C pass, in the same run on the same segment.
#
#   PARTLOG=build/cmd/partlog tests/bench/look_row.sh [ROUNDS [KAFKA_ROUNDS]]
#
# A segment of 1 GiB of 100-byte records in batches of 16 KiB; medians of ROUNDS (default 11) and KAFKA_ROUNDS (default 3) runs of
# whole commands. Then a segment of 100 KiB, when the first line comes, and a range near the end of 1 TB of segments (sparse
# files) beside the same range at their start. Needs a C++ compiler with ISA-L, Maven and a JDK; works in TMPDIR (3 GB).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kafka=$here/../kafka/kafka
rounds=${1:-11}
kafka_rounds=${2:-3}
partlog=$(realpath "${PARTLOG:?must name the program}")
work=$(mktemp -d "${TMPDIR:-/tmp}/partlog-look-row.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export KAFKA_JVM_OPTS=${KAFKA_JVM_OPTS:--Xmx2g}
"$kafka" fetch >/dev/null || exit 77
for program in gen crc_pass; do "${CXX:-c++}" -O2 -o "$work/$program" "$here/$program.cpp" $([ $program = gen ] || echo -lisal); done

store=$work/store
"$partlog" -q -d "$store" create-topic t -c segment.bytes=1073741824 -c max.message.bytes=16384
"$work/gen" 100 9900000 | "$partlog" -q -d "$store" produce t --sync none --batch-size 16384
log=$(ls "$store"/topics/t/0/*.log | head -1)
"$partlog" -q -d "$store" create-topic small
"$work/gen" 100 900 | "$partlog" -q -d "$store" produce small --batch-size 16384
small=$(ls "$store"/topics/small/0/*.log)

# timed NAME ROUNDS COMMAND...: the median of its seconds, kept in $work/NAME.
timed() {
  local name=$1 n=$2 begin; shift 2
  "$@" >/dev/null
  for _ in $(seq "$n"); do
    begin=$EPOCHREALTIME
    "$@" >/dev/null
    echo "$begin $EPOCHREALTIME" | awk '{printf "%.5f\n", $2 - $1}'
  done | sort -n >"$work/times"
  awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}' "$work/times" >"$work/$name"
  awk -v name="$name" '{v[NR] = $1} END {printf "    %-22s %.4f (%.4f..%.4f) s\n", name, v[int((NR + 1) / 2)], v[1], v[NR]}' "$work/times"
}
ratio() { awk -v what="$1" -v a="$(cat "$work/$2")" -v b="$(cat "$work/$3")" -v must="$4" 'BEGIN {printf "%-44s %6.2f   (%s)\n", what, a / b, must}'; }

echo "segment of $(stat -c %s "$log") bytes"
timed cat "$rounds" cat "$log"
timed crc "$rounds" "$work/crc_pass" "$log"
timed dump "$rounds" "$partlog" dump "$log"
timed kafka-dump "$kafka_rounds" "$kafka" dump --files "$log"
timed dump-records "$rounds" "$partlog" dump --records "$log"
timed kafka-dump-records "$kafka_rounds" "$kafka" dump --print-data-log --files "$log"
timed verify "$rounds" "$partlog" verify "$log"
timed dump-small "$rounds" "$partlog" dump --records "$small"
timed kafka-dump-small "$kafka_rounds" "$kafka" dump --print-data-log --files "$small"
first() { "$partlog" "$@" | head -1 || true; }
timed first-line "$rounds" first dump --records "$log"

# 1024 segments of 1 GiB, empty but for a batch at their start: copies of one with another base offset, and its index.
huge=$work/huge
"$partlog" -q -d "$huge" create-topic t
"$partlog" -q -d "$huge" produce t --timestamp 2024-05-01 <<<record
directory=$huge/topics/t/0
python3 - "$directory" <<'P'
import os, struct, sys
directory = sys.argv[1]
first = os.path.join(directory, "%020d.log" % 0)
with open(first, "rb") as f:
    batch = f.read()
for n in range(1024):
    base = n * 10_000_000
    with open(os.path.join(directory, "%020d.log" % base), "wb") as f:
        # A filler batch would cost its bytes: the next batch stands far behind, found by the index alone.
        f.write(struct.pack(">q", base) + batch[8:])
        f.seek((1 << 30) - len(batch))
        f.write(struct.pack(">q", base + 9_999_999) + batch[8:])
    with open(os.path.join(directory, "%020d.index" % base), "wb") as f:
        f.write(struct.pack(">ii", 9_999_999, (1 << 30) - len(batch)))
P
timed range-start "$rounds" "$partlog" -d "$huge" dump t:0:9999999
timed range-end "$rounds" "$partlog" -d "$huge" dump t:0:10239999999

ratio "dump: times faster than Kafka's" kafka-dump dump "must 5, aim 10"
ratio "dump --records: times faster than Kafka's" kafka-dump-records dump-records "must 10, aim 20"
ratio "verify: times the CRC-32C pass" verify crc "must 3"
ratio "100 KiB: times faster than Kafka's" kafka-dump-small dump-small "must 100"
ratio "range at the end of 1 TB: times that at its start" range-end range-start "must be about 1"
