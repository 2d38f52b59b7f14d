/* A slower disk, by LD_PRELOAD: every fsync and fdatasync takes 3 ms longer.
 *
 * SQLite calls one of the two for each durable commit and for each checkpoint, so this shows
 * Interlock's speed on a disk with a slow fsync. Linux only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static void linger(void)
{
    struct timespec left = {0, 3 * 1000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

int fsync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    linger();
    return real(file);
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    linger();
    return real(file);
}
