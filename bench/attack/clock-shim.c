/* The time of day of a program, moved by the seconds that a file of 8 bytes holds. The clock that only
 * runs forward is left alone: as when a person or NTP sets the clock of a machine.
 *
 *   cc -shared -fPIC -o clock-shim.so clock-shim.c -ldl
 *   ATTACK_CLOCK=FILE LD_PRELOAD=./clock-shim.so program
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

static int64_t moved_seconds(void) {
  static const volatile int64_t *seconds;
  static int was_tried;
  if (!was_tried) {
    was_tried = 1;
    const char *path = getenv("ATTACK_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      void *map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
      if (map != MAP_FAILED) seconds = map;
      close(file);
    }
  }
  return seconds == NULL ? 0 : *seconds;
}

int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(which, now);
  if (answer == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += moved_seconds();
  }
  return answer;
}

int gettimeofday(struct timeval *now, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "gettimeofday");
  int answer = real(now, zone);
  if (answer == 0 && now != NULL) now->tv_sec += moved_seconds();
  return answer;
}

time_t time(time_t *now) {
  struct timeval at;
  gettimeofday(&at, NULL);
  if (now != NULL) *now = at.tv_sec;
  return at.tv_sec;
}
