#include "splitter.h"

#include <utility>

namespace partlog::cmd {
namespace {

// Pending bytes up to here are moved before each read; more are left where they are and grow at their end.
constexpr std::size_t short_piece = 64 << 10;
// Memory beyond this is given back once the long piece that wanted it is gone.
constexpr std::size_t most_kept = 16 << 20;

}  // namespace

Splitter::Splitter(std::string delimiter) : delimiter_(std::move(delimiter)), buffer_(short_piece + chunk) {
  begin_ = scanned_ = end_ = buffer_.get() + short_piece;
}

void Splitter::move_pending_to(char* to) {
  std::size_t size = pending().size();
  std::memmove(to, begin_, size);
  scanned_ = to + (scanned_ - begin_);
  begin_ = to;
  end_ = to + size;
}

void Splitter::make_room(std::size_t size) {
  const auto begin = begin_ - buffer_.get(), scanned = scanned_ - buffer_.get(), end = end_ - buffer_.get();
  const std::size_t wanted = 2 * size + 2 * chunk;
  if (static_cast<std::size_t>(begin) > size) {  // most of it is behind us
    const auto old = std::exchange(buffer_, Pages(wanted));
    return move_pending_to(buffer_.get() + (page_size - size % page_size) % page_size);
  }
  buffer_.grow(static_cast<std::size_t>(begin) + wanted);
  begin_ = buffer_.get() + begin;
  scanned_ = buffer_.get() + scanned;
  end_ = buffer_.get() + end;
}

std::span<char> Splitter::room() {
  const std::size_t size = pending().size();
  if (size <= short_piece) {
    Pages large;
    if (buffer_.size() > most_kept) large = std::exchange(buffer_, Pages(short_piece + chunk));
    move_pending_to(buffer_.get() + short_piece - size);
  } else {
    const auto behind = static_cast<std::size_t>(begin_ - buffer_.get());
    const auto left = static_cast<std::size_t>(buffer_.get() + buffer_.size() - end_);
    if (left < chunk || behind > std::max(size, most_kept)) make_room(size);
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
