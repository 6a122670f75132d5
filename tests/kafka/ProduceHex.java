// Sends records through Kafka's Java producer with its default partitioner and says where each of them went.
//
// Usage: kafka run ProduceHex ADDRESS TOPIC [PROPERTY=VALUE...] <"KEY VALUE [TIMESTAMP]" lines; key and value in hexadecimal digits, "-" is null
// Prints "PARTITION OFFSET", one line a record, in the order of the input.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ProduceHex {
    static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HexFormat.of().parseHex(hex);
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = input.readLine()) != null; ) {
                String[] field = line.split(" ", -1);
                sent.add(producer.send(new ProducerRecord<>(args[1], null, field.length > 2 ? Long.valueOf(field[2]) : null, bytes(field[0]), bytes(field[1]))));
            }
        }
        StringBuilder out = new StringBuilder();
        for (Future<RecordMetadata> one : sent) out.append(one.get().partition()).append(' ').append(one.get().offset()).append('\n');
        System.out.print(out);
    }
}
