// Where a topic or a file may stand: an operand with a / is a file or directory; any other is an address in the store, else a
// file of that name.
#pragma once

#include <optional>
#include <string>

#include "address.h"
#include "command.h"
#include "partlog/store.h"

namespace partlog::cmd {

struct Operand {
  std::string path;  // of a file or directory; empty for an address
  Address address;
  std::optional<Topic> topic;  // that of the address
};

// UsageError where both are there ("write ./NAME"), or where it is no address either; Error(not_found) where neither is. The
// store is opened, into `store`, once it is needed.
Operand resolve_operand(const std::string& text, const Globals& globals, std::optional<Store>& store);

bool is_directory(const std::string& path);
// What names a file or directory, a directory without slashes at the end.
std::string path_operand(const std::string& text);
// Whether a batch of records stands at the start of a file.
bool begins_with_batch(const std::string& path);

}  // namespace partlog::cmd
