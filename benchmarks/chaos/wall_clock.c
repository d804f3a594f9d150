/* Shifts the wall clock of a process by the seconds in a shared file; other clocks stay as they are.
 *
 * LD_PRELOAD loads the library, LUDUS_CHAOS_CLOCK names the file: one signed 64-bit number, which may change at any time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*next_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("LUDUS_CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        offset_s = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!next_clock_gettime) /* called by the constructor of another library */
        next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int status = next_clock_gettime(clock, now);
    if (status == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *offset_s;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &time);
    if (status == 0)
        *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return status;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
