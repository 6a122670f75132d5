#include "record_output.h"

#include <array>
#include <cstdint>
#include <utility>

#include "exit_status.h"
#include "text.h"
#include "times.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t block = 32;
static_assert(Output::slack >= block);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool may_read_on = false;
#else
constexpr bool may_read_on = true;
#endif

// Copies `size` bytes in whole blocks, so writing (into the slack of Output) up to a block too much. What it reads too much lies
// in the page of the last byte, and so cannot fault; elsewhere, and under sanitizers, it leaves the work to memcpy.
inline void copy_in_blocks(char* to, const char* from, std::size_t size) {
  constexpr std::uintptr_t page = 4096;
  auto last = reinterpret_cast<std::uintptr_t>(from) + size - 1;
  if (may_read_on && size - 1 < 8 * block && last % page + block <= page) [[likely]] {
    for (std::size_t i = 0; i < size; i += block) std::memcpy(to + i, from + i, block);
  } else if (size > 0) {
    std::memcpy(to, from, size);
  }
}

using Append = void (*)(std::string& out, std::string_view bytes);

void append_as_is(std::string& out, std::string_view bytes) { out += bytes; }

// Of large bytes, what has been made goes out before all is made.
void append_in_pieces(RecordText& out, std::string_view bytes, Append append) {
  constexpr std::size_t piece = std::size_t{3} << 14;  // what base64 makes of it has no padding
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    append(out.text, bytes.substr(0, piece));
    if (out.output == nullptr || out.text.size() < piece) continue;
    out.output->append(out.text);
    out.text.clear();
  }
}

// `"name":"bytes"`, `"name_b64":"…"` or `"name":null`.
void append_json_field(RecordText& out, std::string_view name, Bytes bytes) {
  out.text += '"';
  out.text += name;
  if (bytes.is_null()) {
    out.text += "\":null";
    return;
  }
  const bool is_text = is_utf8(bytes.view());
  out.text += is_text ? "\":\"" : "_b64\":\"";
  append_in_pieces(out, bytes.view(), is_text ? append_json_characters : append_base64);
  out.text += '"';
}

void append_json_headers(RecordText& out, HeaderBlock headers) {
  out.text += '[';
  HeaderCursor cursor(headers);
  Header header;
  bool first = true;
  while (cursor.next(header)) {
    out.text += first ? "{" : ",{";
    append_json_field(out, "name", header.name);
    out.text += ',';
    append_json_field(out, "value", header.value);
    out.text += '}';
    first = false;
  }
  out.text += ']';
}

void append_big_endian(std::string& out, std::int32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(static_cast<std::uint32_t>(value) >> shift & 255);
}

std::int64_t length_of(Bytes bytes) { return bytes.is_null() ? -1 : static_cast<std::int64_t>(bytes.size()); }

}  // namespace

std::string_view timestamp_type_name(TimestampType type) {
  switch (type) {
    case TimestampType::create_time:
      return "create";
    case TimestampType::log_append_time:
      return "logappend";
    case TimestampType::none:
      break;
  }
  return "none";
}

void append_json_record(RecordText out, const Record& record, const Origin& origin) {
  auto& text = out.text;
  text += "{\"topic\":";
  origin.is_known() ? append_json_string(text, origin.topic) : void(text += "null");
  text += ",\"partition\":";
  origin.is_known() ? append_number(text, origin.partition) : void(text += "null");
  text += ",\"offset\":";
  append_number(text, record.offset.value);
  text += ",\"timestamp\":";
  append_number(text, record.timestamp.value);
  text += ",\"tstype\":\"";
  text += timestamp_type_name(origin.timestamp_type);
  text += "\",\"epoch\":";
  append_number(text, origin.epoch);
  text += ",\"headers\":";
  append_json_headers(out, record.headers);
  text += ',';
  append_json_field(out, "key", record.key);
  text += ',';
  append_json_field(out, "value", record.value);
  text += "}\n";
}

RecordOutput::RecordOutput(Output& output, OutputFormat format) : output_(output), format_(std::move(format)) {
  if (format_.format) parse_format(*format_.format);
}

void RecordOutput::parse_format(std::string_view format) {
  std::string text;
  auto end_text = [&] {
    if (!text.empty()) tokens_.push_back({'\0', Modifier::none, std::exchange(text, {})});
  };
  while (!format.empty()) {
    std::size_t percent = std::min(format.find('%'), format.size());
    text += format.substr(0, percent);
    format.remove_prefix(percent);
    if (format.empty()) break;
    char kind = format.size() > 1 ? format[1] : '\0';
    format.remove_prefix(std::min<std::size_t>(format.size(), 2));
    if (kind == '%') {
      text += '%';
    } else if (kind != '\0' && std::string_view("sSRkKtpoTh").find(kind) != std::string_view::npos) {
      end_text();
      Modifier modifier = take_modifier(format, kind);
      tokens_.push_back({kind, modifier, {}});
    } else {
      throw UsageError(kind == '\0' ? std::string("--format ends in a single %: write %% for it")
                                    : "--format has the unknown token %" + std::string(1, kind));
    }
  }
  end_text();
}

RecordOutput::Modifier RecordOutput::take_modifier(std::string_view& rest, char kind) {
  struct Named {
    std::string_view text;
    Modifier modifier;
    std::string_view kinds;
  };
  static constexpr std::array<Named, 4> all = {{{"{hex}", Modifier::hex, "sk"},
                                                {"{base64}", Modifier::base64, "sk"},
                                                {"{json}", Modifier::json, "sSkKtpoTh"},
                                                {"{iso}", Modifier::iso, "T"}}};
  for (const auto& named : all) {
    if (!rest.starts_with(named.text)) continue;
    if (named.kinds.find(kind) == std::string_view::npos) {
      throw UsageError("--format: %" + std::string(1, kind) + " cannot be printed as " + std::string(named.text));
    }
    rest.remove_prefix(named.text.size());
    return named.modifier;
  }
  return Modifier::none;
}

void RecordOutput::write(std::span<const Record> records, const Origin& origin) {
  if (format_.json) {
    for (const auto& record : records) write_json(record, origin);
  } else if (format_.format) {
    for (const auto& record : records) write_format(record, origin);
  } else if (format_.key_delimiter || format_.null_marker || format_.delimiter.size() != 1) {
    for (const auto& record : records) write_text(record);
  } else {
    write_values(records);
  }
}

void RecordOutput::write_values(std::span<const Record> records) {
  const char delimiter = format_.delimiter[0];
  for (const auto& record : records) {
    std::size_t size = record.value.size();
    if (size < Output::capacity / 2) [[likely]] {
      char* to = output_.room(size + 1);
      copy_in_blocks(to, record.value.data(), size);
      to[size] = delimiter;
      output_.advance(to + size + 1);
    } else {
      write_text(record);
    }
  }
}

void RecordOutput::put(Bytes bytes) {
  if (!bytes.is_null()) {
    output_.append(bytes.view());
  } else if (format_.null_marker) {
    output_.append(*format_.null_marker);
  }
}

void RecordOutput::write_text(const Record& record) {
  if (format_.key_delimiter) {
    put(record.key);
    output_.append(*format_.key_delimiter);
  }
  put(record.value);
  output_.append(format_.delimiter);
}

void RecordOutput::write_json(const Record& record, const Origin& origin) {
  scratch_.clear();
  append_json_record({scratch_, &output_}, record, origin);
  output_.append(scratch_);
}

void RecordOutput::write_format(const Record& record, const Origin& origin) {
  scratch_.clear();
  for (const auto& token : tokens_) {
    switch (token.kind) {
      case '\0':
        scratch_ += token.text;
        break;
      case 's':
        append_bytes(token, record.value);
        break;
      case 'k':
        append_bytes(token, record.key);
        break;
      case 'S':
        append_number(scratch_, length_of(record.value));
        break;
      case 'K':
        append_number(scratch_, length_of(record.key));
        break;
      case 'R':
        append_big_endian(scratch_, static_cast<std::int32_t>(length_of(record.value)));
        break;
      case 't':
        append_bytes(token, origin.topic_or_null());
        break;
      case 'p':
        append_partition(token, origin);
        break;
      case 'o':
        append_number(scratch_, record.offset.value);
        break;
      case 'T':
        append_time(token, record.timestamp);
        break;
      case 'h':
        append_headers(token, record.headers);
        break;
    }
  }
  output_.append(scratch_);
}

void RecordOutput::append_bytes(const Token& token, Bytes bytes) {
  RecordText out{scratch_, &output_};
  if (token.modifier == Modifier::json) {
    if (bytes.is_null()) {
      scratch_ += "null";
    } else if (is_utf8(bytes.view())) {
      scratch_ += '"';
      append_in_pieces(out, bytes.view(), append_json_characters);
      scratch_ += '"';
    } else {
      scratch_ += '{';
      append_json_field(out, "value", bytes);  // {"value_b64":"…"}
      scratch_ += '}';
    }
  } else if (bytes.is_null()) {
    if (format_.null_marker) scratch_ += *format_.null_marker;
  } else if (token.modifier == Modifier::hex) {
    append_in_pieces(out, bytes.view(), append_hex);
  } else if (token.modifier == Modifier::base64) {
    append_in_pieces(out, bytes.view(), append_base64);
  } else {
    append_in_pieces(out, bytes.view(), append_as_is);
  }
}

void RecordOutput::append_partition(const Token& token, const Origin& origin) {
  origin.is_known() ? append_number(scratch_, origin.partition) : append_bytes(token, Bytes());
}

void RecordOutput::append_time(const Token& token, Timestamp time) {
  if (token.modifier != Modifier::iso) {
    append_number(scratch_, time.value);
  } else {
    scratch_ += time == no_timestamp ? "-" : format_time(time);
  }
}

void RecordOutput::append_headers(const Token& token, HeaderBlock headers) {
  RecordText out{scratch_, &output_};
  if (token.modifier == Modifier::json) return append_json_headers(out, headers);
  HeaderCursor cursor(headers);
  Header header;
  bool first = true;
  while (cursor.next(header)) {
    if (!first) scratch_ += ',';
    scratch_ += header.name;
    scratch_ += '=';
    if (header.value.is_null()) {
      scratch_ += format_.null_marker ? *format_.null_marker : "NULL";
    } else {
      append_in_pieces(out, header.value.view(), append_as_is);
    }
    first = false;
  }
}

}  // namespace partlog::cmd
