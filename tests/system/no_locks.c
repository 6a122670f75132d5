// A planted bug: preloaded into the program, every file lock is granted at once. test_writers.py and test_groups_sharing.py must
// notice.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

static int is_lock(int command) {
  return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

#define PLANT(name)                             \
  int name(int descriptor, int command, ...) {  \
    va_list arguments;                          \
    va_start(arguments, command);               \
    void* argument = va_arg(arguments, void*);  \
    va_end(arguments);                          \
    if (is_lock(command)) return 0;             \
    int (*next)(int, int, ...);                 \
    *(void**)&next = dlsym(RTLD_NEXT, #name);   \
    return next(descriptor, command, argument); \
  }

PLANT(fcntl)
PLANT(fcntl64)
