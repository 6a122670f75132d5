#include "os/filesystem.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "os/mount_table.h"
#include "partlog/error.h"
#include "support/temporary_directory.h"

namespace partlog::os {
namespace {

constexpr auto table =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "30 22 0:40 / /mnt/nfs rw,relatime shared:2 master:3 - nfs4 host:/x rw,vers=4.2,local_lock=none\n"
    "31 30 0:41 / /mnt/nfs/deep rw - nfs host:/y rw,vers=3,nolock,local_lock=all\n"
    "32 22 0:42 / /mnt/with\\040space\\134x rw - nfs host:/z rw,local_lock=posix\n"
    "33 22 0:43 / /mnt/flock rw - nfs host:/f rw,local_lock=flock\n"
    "34 22 0:44 / /mnt/smb rw,nobrl - cifs //host/s rw,vers=3.1.1\n"
    "35 22 0:45 / /mnt/over rw - nfs host:/o rw,nolock\n"
    "36 35 0:45 / /mnt/over rw - nfs host:/o rw,local_lock=none\n"
    "37 22 0:46 /a /mnt/bind rw - nfs host:/b rw\n"
    "38 22 0:46 /b /mnt/bind/inner rw,nolock - nfs host:/b rw\n"
    "broken line\n"
    "39 22 0:47 / /mnt/short rw - nfs\n";

TEST(MountTable, FindsTheOptionsThatKeepLocksToOneHost) {
  EXPECT_EQ(lock_fault_of(table, "0:40", "/mnt/nfs/store"), "");
  EXPECT_EQ(lock_fault_of(table, "0:41", "/mnt/nfs/deep/store"), "mounted with nolock");
  EXPECT_EQ(lock_fault_of(table, "0:43", "/mnt/flock"), "");
  EXPECT_EQ(lock_fault_of(table, "0:44", "/mnt/smb"), "mounted with nobrl");
}

TEST(MountTable, ReadsEscapedPaths) {
  EXPECT_EQ(lock_fault_of(table, "0:42", "/mnt/with space\\x/store"), "mounted with local_lock=posix");
}

TEST(MountTable, TakesTheLongestMountPointAndTheLastMountedThere) {
  EXPECT_EQ(lock_fault_of(table, "0:45", "/mnt/over/x"), "");
  EXPECT_EQ(lock_fault_of(table, "0:46", "/mnt/bind/x"), "");
  EXPECT_EQ(lock_fault_of(table, "0:46", "/mnt/bind/inner"), "mounted with nolock");
  EXPECT_EQ(lock_fault_of(table, "0:46", "/mnt/bind/inner-not"), "");
}

TEST(MountTable, KnowsTheMountByItsDevice) {
  EXPECT_EQ(lock_fault_of(table, "0:41", "/seen/elsewhere"), "mounted with nolock");
  EXPECT_EQ(lock_fault_of(table, "9:9", "/mnt/nfs/deep"), "");
  EXPECT_EQ(lock_fault_of(table, "0:47", "/mnt/short"), "");
  EXPECT_EQ(lock_fault_of("", "0:41", "/"), "");
}

TEST(Filesystem, OfATestDirectoryIsTrusted) {
  test::TemporaryDirectory directory;
  EXPECT_EQ(filesystem_of(directory.path()).lock_fault, "");
  EXPECT_THROW(filesystem_of(directory.path("none")), Error);
}

TEST(Filesystem, CanBeSaidToBeShared) {
  test::TemporaryDirectory directory;
  ::setenv("PARTLOG_FILESYSTEM", "network", 1);
  EXPECT_TRUE(filesystem_of(directory.path()).network);
  ::setenv("PARTLOG_FILESYSTEM", "local", 1);
  EXPECT_FALSE(filesystem_of(directory.path()).network);
  ::unsetenv("PARTLOG_FILESYSTEM");
}

}  // namespace
}  // namespace partlog::os
