#include "operand.h"

#include <sys/stat.h>

#include "exit_status.h"
#include "partlog/segment_file.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

bool exists(const std::string& path) {
  struct stat found;
  return ::stat(path.c_str(), &found) == 0;
}

// The store, unless none is there.
bool open_if_there(const Globals& globals, std::optional<Store>& store) {
  if (store) return true;
  try {
    store = open_store(globals);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  } catch (const UsageError&) {
    // No store is named: a file will do.
  }
  return false;
}

}  // namespace

bool is_directory(const std::string& path) {
  struct stat found;
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

std::string path_operand(const std::string& text) { return is_directory(text) ? without_final_slashes(text) : text; }

bool begins_with_batch(const std::string& path) {
  SegmentFile file(path);
  return file.next() == SegmentFile::Step::batch;
}

Operand resolve_operand(const std::string& text, const Globals& globals, std::optional<Store>& store) {
  if (text.find('/') != std::string::npos) return {path_operand(text), {}, {}};
  const bool is_file = exists(text);
  std::optional<Address> address;
  try {
    address = parse_address(text);
  } catch (const UsageError&) {
    if (!is_file) throw;
    return {text, {}, {}};  // not even the form of an address
  }
  if (is_file && !open_if_there(globals, store)) return {text, {}, {}};
  if (!is_file && !open_if_there(globals, store)) {
    throw Error(ErrorCode::not_found, "no file '" + text + "', and no store to look for a topic in");
  }
  if (!is_file) {
    try {
      return {{}, *address, store->topic(address->topic)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::not_found, std::string(error.what()) + ", and no file '" + text + "'");
    }
  }
  std::optional<Topic> topic;
  try {
    topic = store->find_topic(address->topic);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;  // not the name of a topic
  }
  if (!topic) return {text, {}, {}};
  throw UsageError("'" + text + "' is both a topic and a file: write ./" + text + " for the file");
}

}  // namespace partlog::cmd
