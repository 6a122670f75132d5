// Reads all partitions of a topic through Kafka's Java consumer, from the first offset to the end as it stands at the start.
//
// Usage: kafka run ConsumeHex ADDRESS TOPIC
// Prints per partition "range PARTITION START END", then one JSON object a record: bytes as hexadecimal digits, null as null.
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ConsumeHex {
    static final long TIME_LIMIT_MS = 30_000;

    static String hex(byte[] bytes) {
        return bytes == null ? "null" : '"' + HexFormat.of().formatHex(bytes) + '"';
    }

    static String json(ConsumerRecord<byte[], byte[]> record) {
        StringJoiner headers = new StringJoiner(",", "[", "]");
        for (Header h : record.headers()) headers.add("[" + hex(h.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)) + "," + hex(h.value()) + "]");
        return String.format("{\"partition\":%d,\"offset\":%d,\"timestamp\":%d,\"tstype\":\"%s\",\"epoch\":%d,\"headers\":%s,\"key\":%s,\"value\":%s}",
            record.partition(), record.offset(), record.timestamp(), record.timestampType().name, record.leaderEpoch().orElse(-1), headers,
            hex(record.key()), hex(record.value()));
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("enable.auto.commit", "false");
        properties.put("check.crcs", "true");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo p : consumer.partitionsFor(args[1])) partitions.add(new TopicPartition(p.topic(), p.partition()));
            Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions), ends = consumer.endOffsets(partitions);
            StringBuilder out = new StringBuilder();
            for (TopicPartition p : partitions) out.append("range " + p.partition() + " " + starts.get(p) + " " + ends.get(p) + "\n");
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long limit = System.currentTimeMillis() + TIME_LIMIT_MS;
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                if (System.currentTimeMillis() > limit) throw new IllegalStateException("the broker does not serve " + args[1] + " to its end");
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) out.append(json(record)).append('\n');
            }
            System.out.print(out);
        }
    }
}
