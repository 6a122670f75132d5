// The records that Kafka's coordinators keep in internal topics, as JSON: __consumer_offsets (positions and groups) and
// __transaction_state. Field names and form are those of Kafka's dump tool. No I/O; safe from several threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "partlog/export.h"
#include "partlog/record.h"

namespace partlog {

enum class CoordinatorTopic { consumer_offsets, transaction_state };

// Of a topic with this name; nullopt for any other.
PARTLOG_EXPORT std::optional<CoordinatorTopic> coordinator_topic(std::string_view topic);

// {"type":"1","data":{…}} of a key, {"version":"3","data":{…}} of the value that belongs to it. False, and nothing written, for a
// type or version that is not known here, and for bytes that do not fit it exactly.
PARTLOG_EXPORT bool decode_coordinator_key(CoordinatorTopic topic, Bytes key, std::string& json);
PARTLOG_EXPORT bool decode_coordinator_value(CoordinatorTopic topic, Bytes key, Bytes value, std::string& json);

}  // namespace partlog
