#include "os/filesystem.h"

#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "os/directory.h"
#include "os/failure.h"
#include "os/mount_table.h"
#include "os/patience.h"

namespace partlog::os {

namespace {

// f_type of statfs(2) for what is shared between hosts, or may be. linux/magic.h lacks half of them.
constexpr std::array<std::uint32_t, 19> network_types = {
    0x6969,      // NFS
    0x517b,      // SMB
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB 2 and 3
    0x65735546,  // FUSE
    0x00c36400,  // Ceph
    0x01021997,  // 9p
    0x5346414f,  // OpenAFS
    0x6b414653,  // kAFS
    0x73757245,  // Coda
    0x564c,      // NCP
    0x01161970,  // GFS2
    0x7461636f,  // OCFS2
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS
    0x20030528,  // OrangeFS
    0x786f4256,  // VirtualBox shared folders
    0x7c7c6673,  // Parallels shared folders
    0xbacbacbc,  // VMware shared folders
};

bool is_network_type(const struct statfs& found) {
  const auto type = static_cast<std::uint32_t>(found.f_type);
  return std::find(network_types.begin(), network_types.end(), type) != network_types.end();
}

// By the environment.
std::optional<bool> overridden() {
  const char* said = std::getenv("PARTLOG_FILESYSTEM");
  if (said == nullptr) return std::nullopt;
  if (std::string_view(said) == "network") return true;
  if (std::string_view(said) == "local") return false;
  return std::nullopt;
}

std::string lock_fault(const std::string& path) {
  auto status = status_of(path);
  std::unique_ptr<char, decltype(&std::free)> absolute(::realpath(path.c_str(), nullptr), &std::free);
  if (!status || !absolute) fail("resolve " + path, status ? errno : ENOENT);
  auto mounts = read_file("/proc/self/mountinfo", std::size_t{64} << 20);
  auto device = std::to_string(major(status->id.device)) + ":" + std::to_string(minor(status->id.device));
  return mounts ? lock_fault_of(*mounts, device, absolute.get()) : std::string();
}

}  // namespace

Filesystem filesystem_of(const std::string& path) {
  struct statfs found;
  if (patiently(path, [&] { return ::statfs(path.c_str(), &found); }) != 0) fail("statfs " + path, errno);
  Filesystem result;
  result.network = is_network_type(found);
  if (result.network) result.lock_fault = lock_fault(path);
  result.network = overridden().value_or(result.network);
  return result;
}

bool is_on_network(const std::string& path) {
  if (const auto is_said = overridden()) return *is_said;
  struct statfs found;
  return uninterrupted([&] { return ::statfs(path.c_str(), &found); }) != 0 || is_network_type(found);
}

}  // namespace partlog::os
