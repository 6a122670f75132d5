// Has a broker write what only a broker writes: transactions of several producers, compacted segments, many segments, groups of every
// kind. Then says which records a reader must find.
//
// Usage: kafka run DriveBroker ADDRESS DATA first       all topics, and most of what is in them
//        kafka run DriveBroker ADDRESS DATA second      the rest, after a restart; ends once the cleaner is through
//        kafka run DriveBroker ADDRESS OUT expect       OUT/TOPIC-0.jsonl of every topic, from Kafka's consumer: the records that
//                                                       isolation.level=read_uncommitted shows, and which of them read_committed does
//        kafka run DriveBroker FILE... expect-files OUT the same of files that no consumer may read, from Kafka's own class
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.serialization.*;

public class DriveBroker {
    static final long T0 = 1_700_000_000_000L;
    static final String TRANSACTIONS = "transactions", OPEN = "open-transaction", COMPACTED = "compacted", SEGMENTS = "segments";
    static final long TIME_LIMIT_MS = 60_000;
    static String address;
    static Path data;
    static Admin admin;
    static long clock = T0;

    // A producer whose every batch() becomes one batch in the log.
    static class Batches implements AutoCloseable {
        final String id;
        final KafkaProducer<String, String> producer;
        int count = 0;

        Batches(String id, boolean transactional, String codec, Object... more) {
            this.id = id;
            Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "linger.ms", "60000", "delivery.timeout.ms", "120000",
                "compression.type", codec, "client.id", id));
            if (transactional) config.put("transactional.id", id);
            for (int i = 0; i < more.length; i += 2) config.put((String) more[i], more[i + 1]);
            producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
            if (transactional) producer.initTransactions();
        }

        void batch(String topic, List<String> keys, boolean tombstones) {
            for (String key : keys) {
                String value = tombstones ? null : id + " " + count++ + " of " + key;
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, clock++, key, value);
                if (count % 7 == 3) record.headers().add("count", Integer.toString(count).getBytes());
                producer.send(record);
            }
            producer.flush();
        }

        void batch(String topic, int size) {
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < size; i++) keys.add(count % 5 == 4 ? null : "key " + i);
            batch(topic, keys, false);
        }

        void begin() { producer.beginTransaction(); }

        void end(boolean commit) {
            if (commit) producer.commitTransaction(); else producer.abortTransaction();
        }

        @Override public void close() { producer.close(); }
    }

    static void waitFor(String what, BooleanSupplier condition) throws InterruptedException {
        for (long end = System.currentTimeMillis() + TIME_LIMIT_MS; !condition.getAsBoolean(); Thread.sleep(50))
            if (System.currentTimeMillis() > end) throw new IllegalStateException("not within " + TIME_LIMIT_MS + " ms: " + what);
    }

    static List<Long> segments(String topic) {
        try (Stream<Path> files = Files.list(data.resolve(topic + "-0"))) {
            return files.map(f -> f.getFileName().toString()).filter(n -> n.endsWith(".log")).map(n -> Long.parseLong(n.substring(0, 20))).sorted().toList();
        } catch (IOException e) { throw new java.io.UncheckedIOException(e); }
    }

    static void createTopics() throws Exception {
        Map<String, Map<String, String>> topics = new LinkedHashMap<>();
        topics.put(TRANSACTIONS, Map.of("internal.segment.bytes", "3000", "index.interval.bytes", "300"));
        topics.put(OPEN, Map.of());
        topics.put(COMPACTED, Map.of("cleanup.policy", "compact", "internal.segment.bytes", "4000", "index.interval.bytes", "500",
            "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "864000000"));
        topics.put(SEGMENTS, Map.of("internal.segment.bytes", "300", "index.interval.bytes", "100"));
        List<NewTopic> all = new ArrayList<>();
        topics.forEach((name, config) -> all.add(new NewTopic(name, 1, (short) 1).configs(config)));
        admin.createTopics(all).all().get();
        try (Batches any = new Batches("first", false, "none")) {
            for (String topic : topics.keySet()) any.batch(topic, 1); // each has its leader now
        }
    }

    // Transactions of three producers that lie within and across each other, plain records between; every second of b is aborted, every third of a.
    static void interleave(int from, int to) {
        try (Batches a = new Batches("a", true, "none"); Batches b = new Batches("b", true, "zstd"); Batches c = new Batches("c", true, "lz4");
             Batches plain = new Batches("plain", false, "snappy")) {
            c.begin();
            for (int round = from; round < to; round++) {
                a.begin();
                a.batch(TRANSACTIONS, 3);
                b.begin();
                b.batch(TRANSACTIONS, 2);
                plain.batch(TRANSACTIONS, 2);
                a.batch(TRANSACTIONS, 1);
                c.batch(TRANSACTIONS, 4);
                a.end(round % 3 != 1);
                b.batch(TRANSACTIONS, 2);
                if (round % 2 == 1) {
                    c.end(round % 4 == 1);
                    c.begin();
                }
                plain.batch(TRANSACTIONS, 1);
                b.end(round % 2 == 0);
            }
            c.batch(TRANSACTIONS, 1);
            c.end(true);
        }
    }

    // The coordinator ends the transaction of a producer whose place another takes.
    static void fence() {
        Batches old = new Batches("fenced", true, "gzip");
        old.begin();
        old.batch(TRANSACTIONS, 3);
        try (Batches successor = new Batches("fenced", true, "gzip")) {
            successor.begin();
            successor.batch(TRANSACTIONS, 2);
            successor.end(true);
        }
    }

    // The producer is not closed: its transaction stays open.
    static void leaveOpen() {
        try (Batches plain = new Batches("plain", false, "none"); Batches other = new Batches("other", true, "none")) {
            plain.batch(OPEN, 3);
            other.begin();
            other.batch(OPEN, 2);
            other.end(true);
            Batches open = new Batches("open", true, "none", "transaction.timeout.ms", 900_000);
            open.begin();
            open.batch(OPEN, 2);
            plain.batch(OPEN, 2);
            for (boolean commit : new boolean[] {true, false}) {
                other.begin();
                other.batch(OPEN, 2);
                other.end(commit);
            }
            open.batch(OPEN, 1);
        }
    }

    static List<String> keys(int from, int to, int step) {
        List<String> all = new ArrayList<>();
        for (int i = from; i < to; i += step) all.add("key-%03d".formatted(i));
        return all;
    }

    // Round n writes every key whose number is divisible by n + 1, so that the cleaner leaves something of each.
    static void overwrite(int from, int to) {
        String[] codecs = {"none", "gzip", "snappy", "lz4", "zstd"};
        for (int round = from; round < to; round++) {
            try (Batches some = new Batches("round" + round, false, codecs[round]); Batches whole = new Batches("whole", true, "none")) {
                for (int key = 0; key < 240; key += 12) some.batch(COMPACTED, keys(key, key + 12, round + 1), false);
                whole.begin();
                whole.batch(COMPACTED, keys(0, 240, 20), false);
                whole.end(round % 2 == 0);
                some.batch(COMPACTED, keys(7 + round, 240, 36), true);
            }
        }
    }

    static void manySegments(int count) {
        try (Batches plain = new Batches("many", false, "none", "enable.idempotence", "false")) {
            for (int i = 0; i < count; i++) plain.batch(SEGMENTS, 1 + i % 3);
        }
    }

    static Map<String, Object> consumerConfig(Object... more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        for (int i = 0; i < more.length; i += 2) config.put((String) more[i], more[i + 1]);
        return config;
    }

    static KafkaConsumer<String, String> member(String group, Object... more) {
        Map<String, Object> config = consumerConfig(more);
        config.put("group.id", group);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static void readAndCommit(KafkaConsumer<String, String> consumer) {
        try (consumer) {
            for (int count = 0; count == 0; ) count = consumer.poll(Duration.ofMillis(100)).count();
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (TopicPartition p : consumer.assignment()) positions.put(p, new OffsetAndMetadata(consumer.position(p), Optional.of(0), "by " + consumer.groupMetadata().groupId()));
            consumer.commitSync(positions);
        }
    }

    // What a producer needs to know of a group that has no members.
    static ConsumerGroupMetadata outside(String group) {
        try (KafkaConsumer<String, String> consumer = member(group, "group.protocol", "classic")) { return consumer.groupMetadata(); }
    }

    static void groups() throws Exception {
        KafkaConsumer<String, String> consumer = member("classic", "group.protocol", "classic");
        consumer.subscribe(List.of(TRANSACTIONS, SEGMENTS));
        readAndCommit(consumer);
        consumer = member("classic-static", "group.protocol", "classic", "group.instance.id", "one");
        consumer.subscribe(List.of(SEGMENTS));
        readAndCommit(consumer);
        consumer = member("consumer", "group.protocol", "consumer");
        consumer.subscribe(List.of(TRANSACTIONS, SEGMENTS));
        readAndCommit(consumer);
        consumer = member("consumer-pattern", "group.protocol", "consumer", "client.rack", "r");
        consumer.subscribe(new SubscriptionPattern("seg.*"));
        readAndCommit(consumer);
        TopicPartition partition = new TopicPartition(TRANSACTIONS, 0);
        for (String group : List.of("assigned", "deleted")) {
            consumer = member(group, "group.protocol", "classic");
            consumer.assign(List.of(partition, new TopicPartition(SEGMENTS, 0)));
            readAndCommit(consumer);
        }
        admin.deleteConsumerGroupOffsets("assigned", Set.of(new TopicPartition(SEGMENTS, 0))).all().get();
        admin.deleteConsumerGroups(List.of("deleted")).all().get();
        try (Batches producer = new Batches("offsets", true, "none")) {
            for (boolean commit : new boolean[] {false, true}) {
                producer.begin();
                producer.producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(commit ? 5 : 7)), outside("transactional"));
                producer.end(commit);
            }
        }
        share();
    }

    static void share() throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, "share"),
            List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(Map.of("bootstrap.servers", address, "group.id", "share"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(SEGMENTS));
            for (int count = 0; count == 0; ) count = consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
        }
    }

    static void first() throws Exception {
        createTopics();
        interleave(0, 5);
        overwrite(0, 3);
        manySegments(100);
        groups();
    }

    static void second() throws Exception {
        fence();
        interleave(5, 9);
        leaveOpen();
        overwrite(3, 5);
        long start = segments(SEGMENTS).get(10);
        admin.deleteRecords(Map.of(new TopicPartition(SEGMENTS, 0), RecordsToDelete.beforeOffset(start))).all().get();
        waitFor("the deletion of segments", () -> segments(SEGMENTS).get(0) == start);
        waitFor("the cleaner", DriveBroker::cleaned);
    }

    // Whether the cleaner has been through all but the active segment.
    static boolean cleaned() {
        List<Long> bases = segments(COMPACTED);
        try {
            return Files.readAllLines(data.resolve("cleaner-offset-checkpoint")).contains(COMPACTED + " 0 " + bases.get(bases.size() - 1));
        } catch (IOException e) { return false; }
    }

    static String hex(byte[] bytes) { return bytes == null ? "null" : '"' + HexFormat.of().formatHex(bytes) + '"'; }

    static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] all = new byte[buffer.remaining()];
        buffer.duplicate().get(all);
        return all;
    }

    static String json(long offset, long timestamp, String tstype, int epoch, byte[] key, byte[] value, Iterable<Header> all, boolean committed) {
        StringJoiner headers = new StringJoiner(",", "[", "]");
        for (Header h : all) headers.add("{\"name\":\"" + h.key() + "\",\"hex\":" + hex(h.value()) + "}");
        return "{\"offset\":%d,\"timestamp\":%d,\"tstype\":\"%s\",\"epoch\":%d,\"key_hex\":%s,\"value_hex\":%s,\"headers\":%s,\"committed\":%b}%n".formatted(
            offset, timestamp, tstype, epoch, hex(key), hex(value), headers, committed);
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, String isolation) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consumerConfig("isolation.level", isolation), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        }
        return records;
    }

    static void expect(Path out) throws Exception {
        for (String topic : admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get()) {
            Set<Long> committed = new HashSet<>();
            read(topic, "read_committed").forEach(r -> committed.add(r.offset()));
            try (PrintWriter to = new PrintWriter(Files.newBufferedWriter(out.resolve(topic + "-0.jsonl")))) {
                for (ConsumerRecord<byte[], byte[]> r : read(topic, "read_uncommitted"))
                    to.print(json(r.offset(), r.timestamp(), r.timestampType().name, r.leaderEpoch().orElse(-1), r.key(), r.value(), r.headers(), committed.contains(r.offset())));
            }
        }
    }

    static void expectFiles(List<String> files, Path out) throws Exception {
        try (PrintWriter to = new PrintWriter(Files.newBufferedWriter(out))) {
            for (String file : files) {
                try (FileRecords log = FileRecords.open(Path.of(file).toFile(), false)) {
                    for (RecordBatch batch : log.batches()) {
                        if (batch.isControlBatch()) continue;
                        for (Record r : batch)
                            to.print(json(r.offset(), r.timestamp(), batch.timestampType().name, batch.partitionLeaderEpoch(), bytes(r.key()), bytes(r.value()), List.of(r.headers()), true));
                    }
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        int last = args.length - 1;
        if (args[last - 1].equals("expect-files")) {
            expectFiles(List.of(args).subList(0, last - 1), Path.of(args[last]));
            return;
        }
        address = args[0];
        data = Path.of(args[1]);
        admin = Admin.create(Map.of("bootstrap.servers", address));
        switch (args[2]) {
            case "first" -> first();
            case "second" -> second();
            case "expect" -> expect(data);
            default -> throw new IllegalArgumentException(args[2]);
        }
        System.exit(0); // what is open stays open
    }
}
