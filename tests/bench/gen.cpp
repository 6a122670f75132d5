// Deterministic, log-like input for the benchmark on standard output.
//
// Usage: gen 100|1k|keyed [LINES]
//   100    lines of about 100 bytes (10 million)
//   1k     lines of about 1000 bytes (1 million)
//   keyed  "key<TAB>value" lines with 500,000 keys (5 million)
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

std::uint64_t state = 88172645463325252ULL;

// xorshift64* (Marsaglia, Vigna).
std::uint64_t random_number() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 2685821657736338717ULL >> 11;
}

template <std::size_t N>
const char* pick(const std::array<const char*, N>& from, std::uint64_t n) {
  return from[n % N];
}

constexpr std::array levels = {"INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"};
constexpr std::array services = {"auth", "cart", "search", "billing", "gateway", "mailer", "catalog", "ledger"};
constexpr std::array messages = {"user login ok",    "cache miss",      "request done",    "retry scheduled",
                                 "payment accepted", "session expired", "index refreshed", "queue drained",
                                 "upstream timeout", "token renewed",   "row inserted",    "job finished"};
constexpr std::array words = {"connection", "reset",  "by",      "peer",    "while",     "reading", "response",  "header",
                              "upstream",   "client", "server",  "request", "worker",    "pool",    "exhausted", "waiting",
                              "lock",       "table",  "orders",  "scan",    "completed", "rows",    "bytes",     "retry",
                              "queue",      "depth",  "exceeds", "limit",   "dropping",  "message"};

using Line = std::array<char, 4096>;

int keyed_line(Line& line, long i, std::uint64_t time) {
  constexpr std::uint64_t keys = 500000;
  const auto n = static_cast<std::uint64_t>(i);
  const auto key = n < keys ? n * 7919 % keys : random_number() % keys;
  return std::snprintf(line.data(), line.size(), "user-%06lu\t{\"ts\":%lu,\"balance\":%lu,\"status\":\"%s\",\"svc\":\"%s\"}\n",
                       key, 1700000000000UL + time, random_number() % 100000, pick(messages, random_number()),
                       pick(services, random_number()));
}

int log_line(Line& line, std::uint64_t time, bool with_detail) {
  const auto r = random_number();
  const auto second = time / 1000;
  int size = std::snprintf(
      line.data(), line.size(),
      "{\"ts\":\"03-%02luT%02lu:%02lu:%02lu.%03luZ\",\"l\":\"%s\",\"s\":\"%s\",\"msg\":\"%s\",\"id\":\"%08lx\",\"ms\":%lu",
      1 + second / 86400 % 28, second / 3600 % 24, second / 60 % 60, second % 60, time % 1000, pick(levels, r & 7),
      pick(services, (r >> 3) & 7), pick(messages, r >> 6), random_number() & 0xffffffff, random_number() % 500);
  const auto add = [&](const char* text) {
    size += std::snprintf(line.data() + size, line.size() - static_cast<std::size_t>(size), "%s", text);
  };
  if (with_detail) {
    add(",\"detail\":\"");
    for (const int target = 900 + static_cast<int>(random_number() % 180); size < target;) {
      add(pick(words, random_number()));
      add(" ");
    }
    add("\"");
  }
  add("}\n");
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "100";
  const long lines = argc > 2 ? std::atol(argv[2]) : mode == "100" ? 10000000 : mode == "1k" ? 1000000 : 5000000;
  Line line;
  std::uint64_t time = 0;
  for (long i = 0; i < lines; ++i) {
    time += random_number() % 7;
    const int size = mode == "keyed" ? keyed_line(line, i, time) : log_line(line, time, mode == "1k");
    std::fwrite(line.data(), 1, static_cast<std::size_t>(size), stdout);
  }
}
