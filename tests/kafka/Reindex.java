// Appends the batches of .log files, one by one, to fresh segments of Kafka's own: their .index and .timeindex are what a
// broker would have written for the same batches, to be compared byte for byte.
//
// Usage: kafka run Reindex <LIST, one "FILE.log<TAB>OUTDIR<TAB>index.interval.bytes" a line
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

public class Reindex {
    public static void main(String[] args) throws Exception {
        BufferedReader list = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = list.readLine()) != null; ) {
            String[] field = line.split("\t");
            reindex(new File(field[0]), new File(field[1]), field[2]);
        }
    }

    static void reindex(File from, File out, String interval) throws Exception {
        long base = Long.parseLong(from.getName().substring(0, 20));
        LogConfig config = new LogConfig(Map.of("index.interval.bytes", interval));
        out.mkdirs();
        LogSegment segment = LogSegment.open(out, base, config, Time.SYSTEM, 0, false);
        try (FileRecords records = FileRecords.open(from, false)) {
            for (FileLogInputStream.FileChannelRecordBatch batch : records.batches()) {
                ByteBuffer bytes = ByteBuffer.allocate(batch.sizeInBytes());
                batch.writeTo(bytes);
                bytes.flip();
                segment.append(batch.lastOffset(), MemoryRecords.readableRecords(bytes));
            }
        }
        segment.onBecomeInactiveSegment();
        segment.close();
    }
}
