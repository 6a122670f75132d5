// Preloaded into the program, $SOFT_MOUNT is a mount that gives up: while there is a file $SOFT_MOUNT_PAUSED, what asks for
// something of a file there fails, and says so by adding to that file.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(const char* path) {
  const char* mount = getenv("SOFT_MOUNT");
  if (strncmp(path, mount, strlen(mount)) != 0) return 0;
  int paused = (int)syscall(SYS_openat, AT_FDCWD, getenv("SOFT_MOUNT_PAUSED"), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (paused < 0) return 0;
  syscall(SYS_write, paused, "!", 1);
  close(paused);
  errno = EIO;
  return 1;
}

static int is_of_failing(int descriptor) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = '\0';
  return fails(path);
}

#define NEXT(name, ...)     \
  int (*next)(__VA_ARGS__); \
  *(void**)&next = dlsym(RTLD_NEXT, #name)

int stat(const char* path, struct stat* found) {
  NEXT(stat, const char*, struct stat*);
  return fails(path) ? -1 : next(path, found);
}

int lstat(const char* path, struct stat* found) {
  NEXT(lstat, const char*, struct stat*);
  return fails(path) ? -1 : next(path, found);
}

int fstat(int descriptor, struct stat* found) {
  NEXT(fstat, int, struct stat*);
  return is_of_failing(descriptor) ? -1 : next(descriptor, found);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  NEXT(open, const char*, int, ...);
  return fails(path) ? -1 : next(path, flags, mode);
}

ssize_t pread(int descriptor, void* data, size_t size, off_t position) {
  ssize_t (*next)(int, void*, size_t, off_t);
  *(void**)&next = dlsym(RTLD_NEXT, "pread");
  return is_of_failing(descriptor) ? -1 : next(descriptor, data, size, position);
}
