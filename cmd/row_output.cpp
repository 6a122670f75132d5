#include "row_output.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "text.h"
#include "times.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t gap = 2;              // between the columns of a table
constexpr std::size_t piece = 8 << 10;      // bytes escaped at a time
constexpr std::size_t most_for_a_byte = 6;  // \u00HH
constexpr std::size_t digits_of_a_number = 24;
constexpr std::size_t room_for_a_cell = 64;    // that is no bytes
constexpr std::size_t room_for_a_header = 64;  // but its bytes
constexpr std::int64_t ms_per_second = 1000;

constexpr bool needs_escape_in_json(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

constexpr std::size_t block = 16;
using Block [[gnu::vector_size(block)]] = unsigned char;  // the compiler's own vectors: many bytes at a time

// Copies a block; whether nothing in it needs an escape.
template <bool as_text>
inline bool copy_block(char* to, const char* from) {
  Block bytes;
  std::memcpy(&bytes, from, block);
  std::memcpy(to, &bytes, block);
  // In text all from 0x7f on need a closer look.
  const auto odd = (bytes < 0x20) | (bytes == '\\') | (as_text ? bytes >= 0x7f : bytes == '"');
  std::uint64_t halves[2];
  std::memcpy(halves, &odd, block);
  return (halves[0] | halves[1]) == 0;
}

// Copies what needs no escape, as far as whole blocks tell; how much that was.
template <bool as_text>
inline std::size_t copy_plain(char* to, const char* from, std::size_t size) {
  std::size_t at = 0;
  for (; at + block <= size; at += block) {
    if (!copy_block<as_text>(to + at, from + at)) return at;
  }
  if (at == size || at == 0) return at;
  return copy_block<as_text>(to + size - block, from + size - block) ? size : at;
}

}  // namespace

void RowOutput::start(std::string_view file, std::span<const Column> columns) {
  const bool same = columns.data() == columns_.data();
  columns_ = columns;
  const bool same_file = any_ && file == file_;
  if (same && same_file) return;
  file_ = file;
  prefix_.clear();
  if (style_.json) {
    prefix_ = "{\"file\":";
    std::string visible;
    if (!is_utf8(file)) {
      for (char c : file) static_cast<unsigned char>(c) < 0x80 ? void(visible += c) : append_escaped(visible, c);
    }
    append_json_string(prefix_, visible.empty() ? file : visible);
  } else if (style_.tsv) {
    append_visible(prefix_, file, true);
  }
  shapes_.clear();
  row_room_ = prefix_.size() + file_.size() * most_for_a_byte + room_for_a_cell;
  for (const auto& column : columns_) {
    const auto width = std::max(column.width, column.name.size());
    Shape shape{{}, {}, width};
    shape.name = ",\"" + std::string(column.name) + "\":";
    if (style_.json) {
      shape.null = std::string(shape.name.view()) + "null";
    } else if (style_.tsv) {
      shape.null = "\t-";
    } else {
      shape.null = shapes_.size() + 1 == columns_.size() ? "-" : "-" + std::string(width - 1 + gap, ' ');
    }
    shapes_.push_back(shape);
    row_room_ += column.name.size() + width + room_for_a_cell;
  }
  if (style_.tsv ? !same : !style_.json) write_header();
  any_ = true;
}

void RowOutput::write_header() {
  if (style_.no_header) return;
  require(0);
  if (style_.tsv) {
    put("file");
    for (const auto& column : columns_) {
      put("\t");
      put(column.name);
    }
  } else {
    if (several_) {
      if (any_) put("\n");
      put_escaped<Form::text>(file_);
      put(":\n");
    }
    at_ = 0;
    for (const auto& column : columns_) {
      open_cell();
      put(column.name);
      close_cell();
    }
  }
  put("\n");
  output_.advance(to_);
}

// Room for `size` bytes and for all other cells of a row.
void RowOutput::require(std::size_t size) { cell_ = to_ = output_.room(size + row_room_); }

void RowOutput::put_large(std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    const auto now = bytes.substr(0, piece);
    make_room(now.size());
    put(now);
  }
}

// In the midst of a row.
void RowOutput::make_room(std::size_t size) {
  used_ += static_cast<std::size_t>(to_ - cell_);
  output_.advance(to_);
  require(size);
}

void RowOutput::begin() {
  at_ = 0;
  require(0);
  put(prefix_);
}

void RowOutput::open_cell() {
  if (style_.json) {
    put(shapes_[at_].name);
  } else if (style_.tsv) {
    *to_++ = '\t';
  }
  cell_ = to_;
  used_ = 0;
}

void RowOutput::close_cell() {
  const auto column = at_++;
  if (style_.json || style_.tsv || at_ == columns_.size()) return;
  const auto width = shapes_[column].width;
  const auto used = used_ + static_cast<std::size_t>(to_ - cell_);
  const auto spaces = used < width ? width - used + gap : gap;
  for (std::size_t at = 0; at < spaces; at += block) std::memset(to_ + at, ' ', block);
  to_ += spaces;
}

void RowOutput::number(std::int64_t value) {
  open_cell();
  to_ = std::to_chars(to_, to_ + digits_of_a_number, value).ptr;
  close_cell();
}

void RowOutput::truth(bool value) {
  open_cell();
  put(value ? "true" : "false");
  close_cell();
}

void RowOutput::null() { put(shapes_[at_++].null); }

void RowOutput::word(std::string_view text) {
  open_cell();
  if (style_.json) *to_++ = '"';
  put(text);
  if (style_.json) *to_++ = '"';
  close_cell();
}

void RowOutput::time(Timestamp time) {
  if (time == no_timestamp) return null();
  auto second = time.value / ms_per_second;
  auto ms = time.value % ms_per_second;
  if (ms < 0) {
    --second;
    ms += ms_per_second;
  }
  if (second != second_) {
    constexpr std::size_t behind_the_point = 4;  // 000Z
    second_text_ = format_time(time);
    second_text_.resize(second_text_.size() - behind_the_point);
    second_ = second;
  }
  open_cell();
  if (style_.json) *to_++ = '"';
  put(second_text_);
  *to_++ = static_cast<char>('0' + ms / 100);
  *to_++ = static_cast<char>('0' + ms / 10 % 10);
  *to_++ = static_cast<char>('0' + ms % 10);
  *to_++ = 'Z';
  if (style_.json) *to_++ = '"';
  close_cell();
}

// How many bytes the character at the start has, if it is put as it is; in JSON, bytes are UTF-8 by then.
template <RowOutput::Form form>
inline std::size_t RowOutput::length_as_it_is(std::string_view text) {
  if (form == Form::json_string) return needs_escape_in_json(text[0]) ? 0 : 1;
  const bool is_ascii = text[0] >= ' ' && text[0] < 0x7f;
  return text[0] == '\\' ? 0 : is_ascii ? 1 : visible_length(text);
}

template <RowOutput::Form form>
void RowOutput::put_escaped(std::string_view bytes) {
  std::string escaped;
  while (!bytes.empty()) {
    const auto now = bytes.substr(0, piece);
    make_room(now.size() * most_for_a_byte);
    const char* from = now.data();
    const char* const end = from + now.size();
    const char* const all = bytes.data() + bytes.size();
    char* to = to_;
    while (from < end) {
      const auto plain = copy_plain < form == Form::text > (to, from, static_cast<std::size_t>(end - from));
      from += plain;
      to += plain;
      for (const char* const stop = from + std::min<std::size_t>(block, static_cast<std::size_t>(end - from)); from < stop;) {
        if (const auto length = length_as_it_is<form>({from, all}); length > 0) {  // a character may reach into the next piece
          to = std::copy_n(from, length, to);
          from += length;
          continue;
        }
        escaped.clear();
        form == Form::text ? append_escaped(escaped, *from) : append_json_characters(escaped, {from, 1});
        to += escaped.copy(to, escaped.size());
        ++from;
      }
    }
    to_ = to;
    bytes.remove_prefix(static_cast<std::size_t>(from - bytes.data()));
  }
}

void RowOutput::put_base64(std::string_view bytes) {
  constexpr std::size_t whole = piece / 3 * 3;
  std::string text;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(whole, bytes.size()))) {
    text.clear();
    append_base64(text, bytes.substr(0, whole));
    put_large(text);
  }
}

// A lone "-" would be null.
void RowOutput::put_text(Bytes bytes) {
  if (bytes.is_null()) return put("-");
  if (bytes.view() == "-") return put("\\x2d");
  put_escaped<Form::text>(bytes.view());
}

void RowOutput::put_json_bytes(std::string_view name, Bytes bytes) {
  *to_++ = '"';
  put(name);
  if (bytes.is_null()) {
    put("\":null");
  } else if (is_utf8(bytes.view())) {
    put("\":\"");
    put_escaped<Form::json_string>(bytes.view());
    put("\"");
  } else {
    put("_b64\":\"");
    put_base64(bytes.view());
    put("\"");
  }
}

void RowOutput::bytes(Bytes bytes) {
  if (style_.json) {
    *to_++ = ',';
    cell_ = to_;
    put_json_bytes(columns_[at_].name, bytes);
  } else {
    open_cell();
    put_text(bytes);
  }
  close_cell();
}

void RowOutput::json(std::string_view text) {
  open_cell();
  style_.json ? put_large(text) : put_escaped<Form::text>(text);
  close_cell();
}

void RowOutput::headers(HeaderBlock headers) {
  open_cell();
  HeaderCursor cursor(headers);
  Header header;
  bool first = true;
  if (style_.json) put("[");
  while (cursor.next(header)) {
    make_room(room_for_a_header);
    if (style_.json) {
      put(first ? "{" : ",{");
      put_json_bytes("name", Bytes(header.name));
      put(",");
      put_json_bytes("value", header.value);
      put("}");
    } else {
      if (!first) put(",");
      put_escaped<Form::text>(header.name);
      put("=");
      header.value.is_null() ? put("NULL") : put_escaped<Form::text>(header.value.view());
    }
    first = false;
  }
  if (style_.json) {
    put("]");
  } else if (first) {
    put("-");
  }
  close_cell();
}

void RowOutput::end() {
  put(style_.json ? "}\n" : "\n");
  output_.advance(to_);
}

}  // namespace partlog::cmd
