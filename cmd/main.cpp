#include <malloc.h>

#include "command.h"

int main(int argc, char** argv) {
  // The allocator would keep large blocks that were freed, and take others beside them where they do not fit.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  return partlog::cmd::run_program(argc, argv);
}
