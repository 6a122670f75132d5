// Listings without an end: rows are written as they come, so that the columns of a table have the widths they are declared with,
// and what is longer pushes the rest of its line to the right. With --json each row is an object on a line of its own.
//
// No allocation per row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "output.h"
#include "partlog/record.h"
#include "partlog/types.h"
#include "table.h"

namespace partlog::cmd {

class RowOutput {
 public:
  struct Column {
    std::string_view name;
    std::size_t width = 0;  // in a table; at least that of the name
  };

  // `several`: rows of more than one file will come, so that a table says of which.
  RowOutput(Output& output, const Table::Style& style, bool several) : output_(output), style_(style), several_(several) {}

  // The rows that follow are of this file and have these columns, which must outlive them. JSON and TSV have the file's name in
  // front of them.
  void start(std::string_view file, std::span<const Column> columns);

  // One row: begin(), a cell for each column in order, end().
  void begin();
  void number(std::int64_t value);
  void truth(bool value);
  void null();
  void number_or_null(std::int64_t value) { value < 0 ? null() : number(value); }
  void word(std::string_view text);  // needs no escape
  void time(Timestamp time);         // null for no_timestamp
  void bytes(Bytes bytes);           // any; in JSON in a field NAME_b64 where they are no UTF-8
  void json(std::string_view text);  // a JSON value
  void headers(HeaderBlock headers);
  void end();

 private:
  enum class Form { text, json_string };

  class ShortText {
   public:
    ShortText() = default;
    ShortText& operator=(std::string_view text) {
      size_ = std::min(text.size(), most);
      std::memcpy(bytes_, text.data(), size_);
      return *this;
    }
    std::string_view view() const { return {bytes_, size_}; }

   private:
    friend class RowOutput;
    static constexpr std::size_t most = 32;
    char bytes_[most] = {};
    std::size_t size_ = 0;
  };
  // What of a column is always the same.
  struct Shape {
    ShortText name;  // `,"name":`
    ShortText null;  // as a cell
    std::size_t width;
  };

  void write_header();
  void require(std::size_t size);
  void make_room(std::size_t size);
  void open_cell();
  void close_cell();
  // There must be room.
  void put(std::string_view bytes) {
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  void put(const ShortText& text) {
    std::memcpy(to_, text.bytes_, ShortText::most);  // a constant number, so no call; what is too much is overwritten
    to_ += text.size_;
  }
  void put_large(std::string_view bytes);  // makes room, and leaves some for the other cells
  template <Form form>
  static std::size_t length_as_it_is(std::string_view text);
  template <Form form>
  void put_escaped(std::string_view bytes);
  void put_base64(std::string_view bytes);
  void put_text(Bytes bytes);
  void put_json_bytes(std::string_view name, Bytes bytes);

  Output& output_;
  Table::Style style_;
  bool several_;
  std::span<const Column> columns_;
  std::string file_;
  std::string prefix_;  // of each row
  bool any_ = false;    // rows or headers were written
  std::vector<Shape> shapes_;
  std::size_t row_room_ = 0;         // for all of a row but bytes, JSON values and headers
  std::size_t at_ = 0;               // the column
  char* to_ = nullptr;               // in the output's buffer
  std::size_t used_ = 0;             // bytes of the cell that stand no longer there
  const char* cell_ = nullptr;       // where the others begin
  std::int64_t second_ = INT64_MIN;  // the one that second_text_ shows
  std::string second_text_;
};

}  // namespace partlog::cmd
