// The 32-bit murmur2 hash with the seed of Kafka's Java client (org.apache.kafka.common.utils.Utils.murmur2), and the partition
// that its default partitioner gives a key.
#pragma once

#include <cstdint>
#include <string_view>

namespace partlog {

std::uint32_t murmur2(std::string_view data);
// (murmur2 & 0x7fffffff) % partitions
int partition_of_key(std::string_view key, int partitions);

}  // namespace partlog
