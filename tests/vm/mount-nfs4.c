/* mount-nfs4 SERVER:/PATH DIR OPTIONS: mount(2) for NFSv4 on a guest that has no nfs-utils. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  if (mount(argv[1], argv[2], "nfs4", 0, argv[3]) != 0) {
    fprintf(stderr, "mount-nfs4: %s\n", strerror(errno));
    return 1;
  }
  return 0;
}
