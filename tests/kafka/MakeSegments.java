// Writes small segments through Kafka's own record builder, cleaner filter and log segment classes, a folder each, and beside them
// `expected.jsonl`: the records a reader must find (but those of aborted transactions), in order.
//
//   v0-CODEC, v1-CODEC       old message formats, plain and wrapped
//   v1-CODEC-append          log append time
//   v0-holes-CODEC, v1-…     what compaction leaves: holes in wrappers, and between them
//   mixed                    all three formats in one segment
//   v2-holes-CODEC           holes in batches, an emptied batch kept for its producer, a tombstone with its delete horizon
//   v2-txn-CODEC             committed and aborted transactions interleaved, with their markers
//   v2-tail                  zeros behind the last batch, as a broker that preallocates leaves them
//
// Usage: kafka run MakeSegments OUT        fixtures of the tests: tests/segments/make
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.storage.internals.log.*;

public class MakeSegments {
    static final long T0 = 1_700_000_000_000L;
    static final byte V0 = 0, V1 = 1, V2 = 2;
    static Path out;

    static byte[] b(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }

    static SimpleRecord r(long t, String k, String v, Header... h) { return new SimpleRecord(t, b(k), b(v), h); }

    static List<SimpleRecord> plain() {
        return List.of(r(T0, "a", "one"), r(T0 + 5, null, "no key"), r(T0 + 3, "", ""), r(T0 + 9, "a", null), r(T0 + 9, "längeres", "x".repeat(300)));
    }

    static List<SimpleRecord> withHeaders() {
        Header[] h = {new RecordHeader("h", b("1")), new RecordHeader("h", null), new RecordHeader("h", new byte[0]), new RecordHeader("", new byte[]{0, (byte) 0xff})};
        List<SimpleRecord> all = new ArrayList<>(plain());
        all.add(new SimpleRecord(T0 + 10, b("with headers"), b("v"), h));
        all.add(new SimpleRecord(T0 - 100, new byte[]{0, 10, 13, (byte) 0xff}, new byte[]{(byte) 0xc3, 0x28}));
        return all;
    }

    // One segment under construction, with everything Kafka's own code writes beside it.
    static class Segment implements Closeable {
        final Path dir;
        final LogSegment segment;
        long next;

        Segment(String name, long base, int initialSize) throws IOException {
            dir = Files.createDirectories(out.resolve(name));
            LogConfig config = new LogConfig(Map.of("index.interval.bytes", "4096", "segment.index.bytes", "10485760"));
            segment = LogSegment.open(dir.toFile(), base, config, Time.SYSTEM, initialSize, initialSize > 0);
            next = base;
        }

        void append(MemoryRecords records) throws IOException {
            long last = next - 1;
            for (RecordBatch batch : records.batches()) last = batch.lastOffset();
            segment.append(last, records);
            next = last + 1;
        }

        void batch(byte magic, Compression codec, TimestampType type, long appendTime, List<SimpleRecord> records) throws IOException {
            try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), magic, codec, type, next, appendTime,
                    RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false, magic < V2 ? -1 : 7, 1 << 20)) {
                for (SimpleRecord record : records) builder.append(record);
                append(builder.build());
            }
        }

        void transactional(Compression codec, long producer, int sequence, SimpleRecord... records) throws IOException {
            append(MemoryRecords.withTransactionalRecords(V2, next, codec, producer, (short) 0, sequence, 7, records));
        }

        void marker(long producer, ControlRecordType kind) throws IOException {
            append(MemoryRecords.withEndTransactionMarker(next, T0 + 50, 7, producer, (short) 0, new EndTransactionMarker(kind, 3)));
        }

        // Copies what lies in the log through Kafka's cleaner filter into a new segment of another name.
        void filtered(String name, Set<Long> keep, Set<Long> keepEmpty) throws IOException {
            ByteBuffer from = ByteBuffer.allocate(segment.size());
            segment.log().readInto(from, 0);
            ByteBuffer to = ByteBuffer.allocate(1 << 20);
            MemoryRecords.readableRecords(from).filterTo(new MemoryRecords.RecordFilter(T0 + 1000, 86_400_000L) {
                @Override protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                    return new BatchRetentionResult(keepEmpty.contains(batch.baseOffset()) ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, false);
                }
                @Override protected boolean shouldRetainRecord(RecordBatch batch, Record record) { return keep.contains(record.offset()); }
            }, to, BufferSupplier.NO_CACHING);
            to.flip();
            try (Segment cleaned = new Segment(name, segment.baseOffset(), 0)) {
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(to).batches()) {
                    ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
                    batch.writeTo(one);
                    one.flip();
                    cleaned.append(MemoryRecords.readableRecords(one));
                }
                cleaned.expect(Set.of());
            }
        }

        void expect(Set<Long> aborted) throws IOException {
            try (PrintWriter to = new PrintWriter(Files.newBufferedWriter(dir.resolve("expected.jsonl")))) {
                for (RecordBatch batch : segment.log().batches()) {
                    if (batch.isControlBatch()) continue;
                    for (Record record : batch) {
                        if (aborted.contains(record.offset())) continue;
                        StringJoiner headers = new StringJoiner(",", "[", "]");
                        for (Header h : record.headers()) headers.add("{\"name\":\"" + h.key() + "\",\"hex\":" + hex(h.value() == null ? null : ByteBuffer.wrap(h.value())) + "}");
                        to.printf("{\"offset\":%d,\"timestamp\":%d,\"tstype\":\"%s\",\"epoch\":%d,\"key_hex\":%s,\"value_hex\":%s,\"headers\":%s}%n", record.offset(), record.timestamp(),
                            batch.timestampType().name, batch.partitionLeaderEpoch(), hex(record.hasKey() ? record.key() : null), hex(record.hasValue() ? record.value() : null), headers);
                    }
                }
            }
        }

        @Override public void close() throws IOException {
            segment.onBecomeInactiveSegment();
            segment.close();
        }
    }

    static String hex(ByteBuffer bytes) {
        if (bytes == null) return "null";
        byte[] all = new byte[bytes.remaining()];
        bytes.duplicate().get(all);
        return '"' + HexFormat.of().formatHex(all) + '"';
    }

    // Three batches of the plain records, of which the cleaner keeps some of the first, none of the second, and one of the third.
    static void compacted(byte magic, String codec) throws IOException {
        TimestampType type = magic == V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        try (Segment s = new Segment("full", 100, 0)) {
            for (int i = 0; i < 3; i++) s.batch(magic, Compression.of(codec).build(), type, RecordBatch.NO_TIMESTAMP, plain());
            s.filtered("v" + magic + "-holes-" + codec, Set.of(101L, 103L, 112L), Set.of());
        }
        remove("full");
    }

    static void remove(String name) throws IOException {
        for (File file : out.resolve(name).toFile().listFiles()) file.delete();
        Files.delete(out.resolve(name));
    }

    public static void main(String[] args) throws Exception {
        out = Path.of(args[0]);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Compression compression = Compression.of(codec).build();
            for (byte magic : new byte[]{V0, V1}) {
                if (codec.equals("zstd")) continue;
                TimestampType type = magic == V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
                try (Segment s = new Segment("v" + magic + "-" + codec, 100, 0)) {
                    for (int i = 0; i < 3; i++) s.batch(magic, compression, type, RecordBatch.NO_TIMESTAMP, plain());
                    s.expect(Set.of());
                }
                compacted(magic, codec);
                if (magic == V0) continue;
                try (Segment s = new Segment("v" + magic + "-" + codec + "-append", 0, 0)) {
                    for (int i = 0; i < 2; i++) s.batch(magic, compression, TimestampType.LOG_APPEND_TIME, T0 + 77 + i, plain());
                    s.expect(Set.of());
                }
            }
            try (Segment s = new Segment("v2-txn-" + codec, 10, 0)) {
                s.transactional(compression, 1, 0, r(T0, "k", "committed 1"), r(T0, "k", "committed 2"));    // 10, 11
                s.transactional(compression, 2, 0, r(T0, "k", "aborted 1"));                                   // 12
                s.batch(V2, compression, TimestampType.CREATE_TIME, -1, List.of(r(T0, "k", "plain")));          // 13
                s.transactional(compression, 1, 2, r(T0, "k", "committed 3"));                                 // 14
                s.transactional(compression, 2, 1, r(T0, "k", "aborted 2"));                                   // 15
                s.marker(2, ControlRecordType.ABORT);                                                          // 16
                s.segment.updateTxnIndex(new CompletedTxn(2, 12, 16, true), 10);
                s.transactional(compression, 2, 2, r(T0, "k", "committed 4"));                                 // 17
                s.marker(1, ControlRecordType.COMMIT);                                                         // 18
                s.marker(2, ControlRecordType.COMMIT);                                                         // 19
                s.expect(Set.of(12L, 15L));
            }
            try (Segment s = new Segment("full", 0, 0)) {
                s.batch(V2, compression, TimestampType.CREATE_TIME, -1, withHeaders());                         // 0..6
                s.append(MemoryRecords.withIdempotentRecords(V2, s.next, compression, 9, (short) 1, 0, 7, r(T0 + 20, "p", "1"), r(T0 + 21, "p", "2"))); // 7, 8
                s.batch(V2, compression, TimestampType.CREATE_TIME, -1, List.of(r(T0 + 30, "q", null), r(T0 + 31, "s", "last"))); // 9, 10
                s.filtered("v2-holes-" + codec, Set.of(1L, 4L, 6L, 9L), Set.of(7L));
            }
            remove("full");
        }
        try (Segment s = new Segment("mixed", 5_000_000_000L, 0)) {
            for (int i = 0; i < 2; i++) {
                for (String codec : List.of("none", "gzip", "lz4")) {
                    Compression compression = Compression.of(codec).build();
                    s.batch(V0, compression, TimestampType.NO_TIMESTAMP_TYPE, RecordBatch.NO_TIMESTAMP, plain());
                    s.batch(V1, compression, TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP, plain());
                    s.batch(V2, compression, TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP, withHeaders());
                }
            }
            s.expect(Set.of());
        }
        try (Segment s = new Segment("v2-tail", 0, 1 << 14)) {
            s.batch(V2, Compression.NONE, TimestampType.CREATE_TIME, -1, plain());
            s.expect(Set.of());
            s.segment.close();
            try (RandomAccessFile file = new RandomAccessFile(s.dir.resolve("00000000000000000000.log").toFile(), "rw")) { file.setLength(8192); }
        } catch (IOException | RuntimeException closedAlready) { if (!Files.exists(out.resolve("v2-tail/expected.jsonl"))) throw closedAlready; }
    }
}
