/* mount-nfs TYPE SERVER:/PATH DIR OPTIONS: mount(2) for NFS on a guest that has no nfs-utils. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  if (mount(argv[2], argv[3], argv[1], 0, argv[4]) != 0) {
    fprintf(stderr, "mount-nfs: %s\n", strerror(errno));
    return 1;
  }
  return 0;
}
