#include "log/torn_tail.h"

#include <cstring>
#include <set>
#include <utility>

#include "format/record_batch.h"
#include "log/batch_scanner.h"
#include "log/window.h"

namespace partlog::log {

namespace {

constexpr std::size_t window_bytes = 256 << 10;

// Follows headers only; whether their lengths lead exactly to the end of the file. `seen` holds places already known to lead
// nowhere.
bool lengths_lead_to_end(Window& window, std::int64_t position, std::int64_t size, Offset expected,
                         std::set<std::int64_t>& dead) {
  std::set<std::int64_t> visited;
  while (position < size) {
    const auto bytes = window.view(position, format::batch_header_size);
    const bool known_dead = dead.contains(position) || bytes.size() < format::batch_header_size;
    const auto header = known_dead ? format::BatchHeader{} : format::read_batch_header(bytes);
    if (known_dead || format::header_fault(header) != nullptr || header.base_offset < expected) {
      dead.merge(visited);
      return false;
    }
    visited.insert(position);
    expected = header.next_offset();
    position += header.size();
  }
  if (position == size) return true;
  dead.merge(visited);
  return false;
}

std::optional<Offset> valid_chain(const os::File& file, std::int64_t position, Offset expected) {
  BatchScanner scanner(file, position, expected, window_bytes);
  for (;;) {
    const auto found = scanner.next();
    if (found == Scan::end) return scanner.expected();
    if (found != Scan::batch) return std::nullopt;
  }
}

}  // namespace

std::optional<Offset> end_of_chain_behind(const os::File& file, std::int64_t position, Offset expected) {
  const auto size = file.size();
  const auto last_start = size - static_cast<std::int64_t>(format::batch_header_size);
  Window sweep(file, window_bytes, false);
  Window hops(file, 16 << 10, false);
  std::set<std::int64_t> dead;
  for (auto at = position + 1; at <= last_start;) {
    const auto bytes = sweep.view(at, format::batch_header_size);
    if (bytes.size() < format::batch_header_size) break;
    // A header has the magic byte 2 at a fixed distance: jump from one such byte to the next.
    const auto* from = bytes.data() + format::field::magic;
    const auto* magic = static_cast<const char*>(std::memchr(from, 2, bytes.size() - format::field::magic));
    if (magic == nullptr) {
      at += static_cast<std::int64_t>(bytes.size() - format::field::magic);
      continue;
    }
    at += magic - from;
    const auto header = sweep.view(at, format::batch_header_size);
    if (header.size() < format::batch_header_size) break;
    if (format::header_fault(format::read_batch_header(header)) != nullptr) {
      ++at;
      continue;
    }
    if (lengths_lead_to_end(hops, at, size, expected, dead)) {
      if (const auto end = valid_chain(file, at, expected)) return end;
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace partlog::log
