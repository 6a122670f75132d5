// Lets Kafka's dump tool print keys and values as hexadecimal digits: --key-decoder-class HexDecoder
import java.util.HexFormat;
import org.apache.kafka.tools.api.Decoder;

public class HexDecoder implements Decoder<String> {
    @Override
    public String fromBytes(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
