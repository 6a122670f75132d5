// A planted bug: preloaded into the program, every pipe looks as if its reader had taken all. test_groups_delivery.py must
// notice.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/ioctl.h>

int ioctl(int descriptor, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == FIONREAD) return *(int*)argument = 0;
  int (*next)(int, unsigned long, ...);
  *(void**)&next = dlsym(RTLD_NEXT, "ioctl");
  return next(descriptor, request, argument);
}
