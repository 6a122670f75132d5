#include "text.h"

#include <algorithm>
#include <cstring>

#include "exit_status.h"

namespace partlog::cmd {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";
constexpr char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int base64_value(char c) {
  const char* at = c == '\0' ? nullptr : std::strchr(base64_digits, c);
  return at == nullptr ? -1 : static_cast<int>(at - base64_digits);
}

void append_byte_hex(std::string& out, unsigned char byte) {
  out += hex_digits[byte >> 4];
  out += hex_digits[byte & 15];
}

// The length of the UTF-8 sequence at the start of `s`; 0 if there is none.
std::size_t utf8_length(const unsigned char* s, std::size_t size) {
  auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < size && s[i] >= low && s[i] <= high;
  };
  unsigned lead = s[0];
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    return continues(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    return continues(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

// The short JSON escape of a control character, a quote or a backslash; '\0' where only \u00XX does.
char json_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return '\0';
  }
}

}  // namespace

std::optional<std::int64_t> parse_decimal(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string unescape(std::string_view text, std::string_view option) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    char c = ++i < text.size() ? text[i] : '\0';
    int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
    int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (c == 'n') {
      out += '\n';
    } else if (c == 'r') {
      out += '\r';
    } else if (c == 't') {
      out += '\t';
    } else if (c == '0') {
      out += '\0';
    } else if (c == '\\') {
      out += '\\';
    } else if (c == 'x' && high >= 0 && low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      throw UsageError(std::string(option) + ": after a backslash comes n, r, t, 0, \\ or x with two hexadecimal digits");
    }
  }
  return out;
}

void append_escaped(std::string& out, char c) {
  if (c == '\t') {
    out += "\\t";
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\\') {
    out += "\\\\";
  } else {
    out += "\\x";
    append_byte_hex(out, static_cast<unsigned char>(c));
  }
}

std::size_t visible_length(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  constexpr unsigned char first_of_c1 = 0xc2;
  if (bytes[0] < 0x80) return bytes[0] >= 0x20 && bytes[0] != 0x7f ? 1 : 0;
  const auto length = utf8_length(bytes, text.size());
  return length == 2 && bytes[0] == first_of_c1 && bytes[1] < 0xa0 ? 0 : length;
}

void append_visible(std::string& out, std::string_view text, bool is_field) {
  while (!text.empty()) {
    const auto length = is_field && text[0] == '\\' ? 0 : visible_length(text);
    length == 0 ? append_escaped(out, text[0]) : void(out.append(text.substr(0, length)));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

void append_hex(std::string& out, std::string_view bytes) {
  for (char c : bytes) append_byte_hex(out, static_cast<unsigned char>(c));
}

void append_base64(std::string& out, std::string_view bytes) {
  auto byte = [&](std::size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += base64_digits[bits >> 18];
    out += base64_digits[bits >> 12 & 63];
    out += i + 1 < bytes.size() ? base64_digits[bits >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? base64_digits[bits & 63] : '=';
  }
}

std::optional<std::size_t> decode_base64(std::span<char> text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::string_view view(text.data(), text.size());
  const std::size_t padding = view.ends_with("==") ? 2 : view.ends_with("=") ? 1 : 0;
  char* to = text.data();
  unsigned bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = i + padding >= text.size() ? 0 : base64_value(text[i]);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    if (i % 4 == 3) {
      *to++ = static_cast<char>(bits >> 16 & 255);
      *to++ = static_cast<char>(bits >> 8 & 255);
      *to++ = static_cast<char>(bits & 255);
    }
  }
  return static_cast<std::size_t>(to - text.data()) - padding;
}

std::size_t utf8_prefix(std::string_view bytes) {
  auto* s = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t i = 0;
  while (i < bytes.size()) {
    std::uint64_t eight;
    if (i + sizeof eight <= bytes.size()) {
      std::memcpy(&eight, s + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    std::size_t length = utf8_length(s + i, bytes.size() - i);
    if (length == 0) break;
    i += length;
  }
  return i;
}

void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  append_json_characters(out, utf8);
  out += '"';
}

void append_json_characters(std::string& out, std::string_view utf8) {
  std::size_t plain = 0;  // start of what needs no escape
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    char c = utf8[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(utf8, plain, i - plain);
    plain = i + 1;
    out += '\\';
    if (char letter = json_escape(c)) {
      out += letter;
    } else {
      out += "u00";
      append_byte_hex(out, static_cast<unsigned char>(c));
    }
  }
  out.append(utf8, plain);
}

std::string counted(std::uint64_t count, std::string_view singular) {
  std::string text;
  append_number(text, count);
  text += ' ';
  text += singular;
  if (count != 1) text += 's';
  return text;
}

std::string system_message(int error_number) {
  char buffer[128];
  return ::strerror_r(error_number, buffer, sizeof buffer);
}

std::string without_final_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-./:,@%+=").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace partlog::cmd
