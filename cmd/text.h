// Numbers, escapes and encodings as the command line writes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "partlog/types.h"

namespace partlog::cmd {

// A whole decimal number with nothing around it (`010` is ten, `-5` minus five); nullopt for anything else or past int64.
std::optional<std::int64_t> parse_decimal(std::string_view text);

// `\n \r \t \0 \\ \xHH` to bytes. UsageError, naming `option`, for any other use of the backslash.
std::string unescape(std::string_view text, std::string_view option);

// `\t`, `\n`, `\\` or `\xHH`.
void append_escaped(std::string& out, char c);

// How many bytes the character at the start has, if a terminal can be shown it: UTF-8, and no control character, of which C1 has
// some, too. 0: the first byte is to be escaped. There must be one.
std::size_t visible_length(std::string_view text);
// For people to read: what no terminal is to be shown is escaped. In a field of a table the backslash is, too.
void append_visible(std::string& out, std::string_view text, bool is_field = false);

void append_hex(std::string& out, std::string_view bytes);
void append_base64(std::string& out, std::string_view bytes);
// In place; returns how many bytes it makes. Padding is required, nothing else than the alphabet may occur; nullopt otherwise.
std::optional<std::size_t> decode_base64(std::span<char> text);

// How many bytes from the first on are UTF-8, see is_utf8().
std::size_t utf8_prefix(std::string_view bytes);
// Whether the bytes are UTF-8 by RFC 3629 (no surrogates, no overlong forms).
inline bool is_utf8(std::string_view bytes) { return utf8_prefix(bytes) == bytes.size(); }
// The bytes, which must be UTF-8, as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view utf8);
void append_json_characters(std::string& out, std::string_view utf8);  // without the quotes

template <class Integer>
void append_number(std::string& out, Integer value) {
  char digits[24];
  out.append(digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits));
}

// "1 record", "2 records"
std::string counted(std::uint64_t count, std::string_view singular);

// The path of a directory as it goes in front of the names in it.
std::string without_final_slashes(std::string path);

// As a word of a shell command.
std::string shell_word(std::string_view text);
// The system's words for an errno.
std::string system_message(int error_number);

}  // namespace partlog::cmd
