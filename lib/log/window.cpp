#include "log/window.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace partlog::log {

namespace {
constexpr std::size_t page = 4096;
constexpr std::size_t worth_giving_back = 16 << 20;
constexpr std::size_t mapped_window = 16;  // times the size: what is not looked at takes no memory
}  // namespace

void Window::Free::operator()(char* p) const { std::free(p); }

Window::Window(const os::File& file, std::size_t size, bool mapped) : file_(&file), size_(size), mapped_(mapped) {
  if (mapped_) file_size_ = file.size();
}

bool Window::file_reaches(std::int64_t position) const { return position <= (mapped_ ? file_size_ : file_->size()); }

void Window::forget() { bytes_ = {}; }

std::span<const char> Window::held(std::int64_t position) const {
  const auto at = position - start_;
  if (at < 0 || at >= static_cast<std::int64_t>(bytes_.size())) return {};
  return bytes_.subspan(static_cast<std::size_t>(at));
}

std::span<const char> Window::view(std::int64_t position, std::size_t want) {
  auto now = held(position);
  if (now.size() < want) {
    mapped_ ? map(position, want) : read(position, want);
    now = held(position);
  }
  asked_for_ = static_cast<std::size_t>(position - start_) + std::min(want, now.size());
  return now;
}

void Window::map(std::int64_t position, std::size_t want) {
  bytes_ = {};
  if (position >= file_size_) return;
  const auto left = static_cast<std::size_t>(file_size_ - position);
  mapping_ = os::Mapping(*file_, position, std::min(left, std::max(want, mapped_window * size_)));
  start_ = position;
  bytes_ = mapping_.bytes();
}

// Keeps what is held from `position` on and reads only what follows; no more than was asked for even where a large batch left a
// large buffer, for the next one may need a larger one, and what is kept would be there twice. The buffer holds a byte at the
// same distance from a page boundary as the file does: the kernel copies several times slower between addresses that differ by a
// few bytes modulo a page.
void Window::read(std::int64_t position, std::size_t want) {
  // What a header promises may be far more than the file holds.
  if (want > size_)
    want = static_cast<std::size_t>(std::clamp<std::int64_t>(file_->size() - position, 0, static_cast<std::int64_t>(want)));
  const auto kept = held(position);
  const auto lead = static_cast<std::size_t>(position) % page;
  const auto need = (lead + std::max(want, size_) + page - 1) / page * page;
  const bool is_oversized = capacity_ > need + worth_giving_back;
  if (need > capacity_ || (is_oversized && (was_oversized_ || want > size_))) {  // once may be for a large batch's header
    const auto room = need + page;  // for the header behind a large batch, with that batch kept
    std::unique_ptr<char[], Free> larger(static_cast<char*>(std::aligned_alloc(page, room)));
    if (!larger) throw std::bad_alloc();
    if (!kept.empty()) std::memcpy(larger.get() + lead, kept.data(), kept.size());
    buffer_ = std::move(larger);
    capacity_ = room;
  } else if (!kept.empty()) {
    std::memmove(buffer_.get() + lead, kept.data(), kept.size());
  }
  was_oversized_ = is_oversized;
  bytes_ = {};  // not what it was, should the read fail
  char* const into = buffer_.get() + lead;
  const auto got =
      file_->read_at({into + kept.size(), need - lead - kept.size()}, position + static_cast<std::int64_t>(kept.size()));
  start_ = position;
  bytes_ = {into, kept.size() + got};
}

}  // namespace partlog::log
