#include "splitter.h"

namespace partlog::cmd {
namespace {

// Pending bytes up to here are moved before each read; more are left where they are and grow at their end.
constexpr std::size_t short_piece = 64 << 10;

}  // namespace

Splitter::Splitter(std::string delimiter)
    : delimiter_(std::move(delimiter)), buffer_(allocate_pages(short_piece + chunk)), capacity_(short_piece + chunk) {
  begin_ = scanned_ = end_ = buffer_.get() + short_piece;
}

void Splitter::move_pending_to(char* to) {
  std::size_t size = pending().size();
  std::memmove(to, begin_, size);
  scanned_ = to + (scanned_ - begin_);
  begin_ = to;
  end_ = to + size;
}

std::span<char> Splitter::room() {
  std::size_t size = pending().size();
  char* limit = buffer_.get() + capacity_;
  if (size <= short_piece) {
    move_pending_to(buffer_.get() + short_piece - size);
  } else if (static_cast<std::size_t>(limit - end_) < chunk) {
    std::size_t larger = (2 * size + 2 * chunk + page_size - 1) / page_size * page_size;
    auto old = std::move(buffer_);
    buffer_ = allocate_pages(larger);
    capacity_ = larger;
    move_pending_to(buffer_.get() + (page_size - size % page_size) % page_size);
  }
  return {end_, chunk};
}

std::size_t Splitter::drop_pending(bool keep_delimiter_start) {
  std::size_t kept = keep_delimiter_start ? std::min(pending().size(), delimiter_start()) : 0;
  std::size_t dropped = pending().size() - kept;
  begin_ = scanned_ = end_ - kept;
  return dropped;
}

const void* Splitter::find_long(std::size_t size) const {
  return delimiter_.empty() ? nullptr : ::memmem(scanned_, size, delimiter_.data(), delimiter_.size());
}

}  // namespace partlog::cmd
