// Cuts a stream of bytes at a delimiter of any length, wherever the reads that bring the bytes begin and end.
//
// The bytes come straight from read(2) into room(). A piece that has begun stands right before a page boundary when more is
// read, since a read to an address a few bytes off a boundary costs the kernel several times as much.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "pages.h"

namespace partlog::cmd {

class Splitter {
 public:
  static constexpr std::size_t chunk = 256 << 10;

  // An empty delimiter never matches: everything is one piece.
  explicit Splitter(std::string delimiter);

  // Where the next bytes go, at least `chunk` of them. Pieces given out before are no longer valid.
  std::span<char> room();
  void filled(std::size_t size) { end_ += size; }

  // What to cut next, in place of what room() would bring. The bytes stay where they are; forgets what is pending.
  void look_at(std::span<char> bytes) {
    begin_ = scanned_ = bytes.data();
    end_ = begin_ + bytes.size();
  }

  // The next piece that its delimiter ends, without the delimiter.
  bool next(std::string_view& piece) {
    const char* found = find();
    if (found == nullptr) return false;
    piece = {begin_, static_cast<std::size_t>(found - begin_)};
    begin_ += piece.size() + delimiter_.size();
    scanned_ = begin_;
    return true;
  }

  // A piece that is still valid, to be written over.
  std::span<char> in_place(std::string_view piece) const { return {begin_ + (piece.data() - begin_), piece.size()}; }

  // What has come in behind the last delimiter.
  std::string_view pending() const { return {begin_, static_cast<std::size_t>(end_ - begin_)}; }
  // Forgets what is pending, all of it or all but what may be the start of a delimiter; returns how much.
  std::size_t drop_pending(bool keep_delimiter_start);

 private:
  const char* find() {
    auto size = static_cast<std::size_t>(end_ - scanned_);
    const void* found = delimiter_.size() == 1 ? std::memchr(scanned_, delimiter_[0], size) : find_long(size);
    if (found == nullptr) scanned_ = end_ - std::min(pending().size(), delimiter_start());
    return static_cast<const char*>(found);
  }
  const void* find_long(std::size_t size) const;
  std::size_t delimiter_start() const { return delimiter_.empty() ? 0 : delimiter_.size() - 1; }
  void move_pending_to(char* to);
  void make_room(std::size_t size);

  std::string delimiter_;
  Pages buffer_;
  char* begin_;    // the first byte of the piece in hand
  char* scanned_;  // before it no delimiter begins
  char* end_;
};

}  // namespace partlog::cmd
