// Records of the coordinators' topics as Kafka's own classes write them: every type and version, once with the default of each
// field and once with another value, each with the JSON that Kafka's converters make of it.
//
// Usage: kafka run CoordinatorRecords; a line each: topic, type, key, its JSON, version, value, its JSON, separated by tabs
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class CoordinatorRecords {
    static final List<String> GROUP = List.of("LegacyOffsetCommit", "OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata",
        "ConsumerGroupPartitionMetadata", "ConsumerGroupMemberMetadata", "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupRegularExpression");

    public static void main(String[] args) throws Exception {
        for (String name : GROUP) show("__consumer_offsets", "org.apache.kafka.coordinator.group.generated." + name);
        show("__transaction_state", "org.apache.kafka.coordinator.transaction.generated.TransactionLog");
    }

    static void show(String topic, String name) throws Exception {
        Class<?> valueClass = Class.forName(name + "Value");
        for (boolean filled : new boolean[] {false, true}) {
            ApiMessage key = (ApiMessage) make(Class.forName(name + "Key"), true);
            short highest = ((ApiMessage) make(valueClass, false)).highestSupportedVersion();
            for (short version = 0; version <= highest; version++) {
                Message value = (Message) make(valueClass, filled);
                try {
                    System.out.println(String.join("\t", topic, "" + key.apiKey(), hex(key.apiKey(), key, (short) 0),
                        json(name + "Key", key, (short) 0), "" + version, hex(version, value, version), json(name + "Value", value, version)));
                } catch (org.apache.kafka.common.errors.UnsupportedVersionException e) {
                    // A field that this version lacks, and that may not be left out.
                }
            }
        }
    }

    static String hex(short prefix, Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(2 + message.size(cache, version));
        bytes.putShort(prefix);
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HexFormat.of().formatHex(bytes.array());
    }

    static String json(String name, Message message, short version) throws Exception {
        for (Method method : Class.forName(name + "JsonConverter").getMethods())
            if (method.getName().equals("write") && method.getParameterCount() == 2) return method.invoke(null, message, version).toString();
        throw new IllegalStateException(name);
    }

    static Object make(Class<?> type, boolean filled) throws Exception {
        Object made = type.getConstructor().newInstance();
        if (!filled) return made;
        for (Method setter : type.getMethods())
            if (setter.getName().startsWith("set") && setter.getParameterCount() == 1) setter.invoke(made, sample(setter.getGenericParameterTypes()[0], setter.getName()));
        return made;
    }

    static Object sample(Type type, String name) throws Exception {
        if (type == short.class) return (short) 300;
        if (type == int.class) return 70_000;
        if (type == long.class) return 5_000_000_000L;
        if (type == byte.class) return (byte) -3;
        if (type == boolean.class) return true;
        if (type == String.class) return name + " größe \"\\\t";
        if (type == byte[].class) return new byte[] {0, -1, 65, 66};
        if (type == Uuid.class) return new Uuid(0x0123456789abcdefL, 0xfedcba9876543210L);
        if (type == Integer.class) return -5;
        if (type instanceof ParameterizedType list) {
            Type of = list.getActualTypeArguments()[0];
            return List.of(sample(of, name + "0"), sample(of, name + "1"));
        }
        return make((Class<?>) type, true);
    }
}
