/*
 * A stand-in for libnvidia-ml.so.1 with the few functions Plimsoll calls. Tests set its state
 * through fake_set and fake_add_process. Built with -DWITHOUT_... it lacks symbols, as old drivers
 * do. The layouts follow NVIDIA's public API reference.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  OK = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  LOST = 15,
  VERSION_REFUSED = 25
};

enum { GPUS = 8, INSTANCES = 4, PROCESSES = 64 };

typedef struct {
  uint32_t pid;
  uint64_t used;
  int graphics;
} process_t;

typedef struct device {
  int number;
  int instance; /* -1: a whole GPU */
  int present;  /* instances only */
  int lost;
  uint64_t total, reserved, used;
  uint32_t utilization;
  int handle_code, memory_code, memory_v2_code, utilization_code, processes_code, uuid_code;
  int mig_mode;
  int late_processes; /* this many more appear between the two calls */
  process_t processes[PROCESSES];
  int process_count;
  struct device *instances;
} device_t;

static device_t gpus[GPUS];
static device_t instances[GPUS][INSTANCES];
static int gpu_count, init_code, stride, inits, shutdowns, memory_calls, ready;

static uint64_t gib(uint64_t n) { return n << 30; }

static void reset_device(device_t *d, int number, int instance, uint64_t total) {
  memset(d, 0, sizeof *d);
  d->number = number;
  d->instance = instance;
  d->total = total;
  d->reserved = total / 100;
  d->used = total / 4;
  d->utilization = 37;
}

void fake_reset(void) {
  for (int g = 0; g < GPUS; g++) {
    reset_device(&gpus[g], g, -1, gib(80));
    gpus[g].instances = instances[g];
    for (int i = 0; i < INSTANCES; i++) {
      reset_device(&instances[g][i], g, i, gib(20));
      instances[g][i].utilization_code = NOT_SUPPORTED;
    }
  }
  gpu_count = 2;
  init_code = OK;
  stride = 24;
  inits = shutdowns = memory_calls = 0;
}

static device_t *pick(int gpu, int instance) {
  return instance < 0 ? &gpus[gpu] : &instances[gpu][instance];
}

/* Sets one figure by name; answers 0, or -1 when there is no such name. */
int fake_set(const char *key, int gpu, int instance, uint64_t value) {
  device_t *d = pick(gpu, instance);
  if (!strcmp(key, "count")) gpu_count = (int)value;
  else if (!strcmp(key, "init_code")) init_code = (int)value;
  else if (!strcmp(key, "stride")) stride = (int)value;
  else if (!strcmp(key, "total")) d->total = value;
  else if (!strcmp(key, "reserved")) d->reserved = value;
  else if (!strcmp(key, "used")) d->used = value;
  else if (!strcmp(key, "utilization")) d->utilization = (uint32_t)value;
  else if (!strcmp(key, "lost")) d->lost = (int)value;
  else if (!strcmp(key, "present")) d->present = (int)value;
  else if (!strcmp(key, "mig_mode")) d->mig_mode = (int)value;
  else if (!strcmp(key, "handle_code")) d->handle_code = (int)value;
  else if (!strcmp(key, "memory_code")) d->memory_code = (int)value;
  else if (!strcmp(key, "memory_v2_code")) d->memory_v2_code = (int)value;
  else if (!strcmp(key, "utilization_code")) d->utilization_code = (int)value;
  else if (!strcmp(key, "processes_code")) d->processes_code = (int)value;
  else if (!strcmp(key, "uuid_code")) d->uuid_code = (int)value;
  else if (!strcmp(key, "late_processes")) d->late_processes = (int)value;
  else return -1;
  return 0;
}

void fake_add_process(int gpu, int instance, int graphics, uint32_t pid, uint64_t used) {
  device_t *d = pick(gpu, instance);
  process_t added = {pid, used, graphics};
  if (d->process_count < PROCESSES) d->processes[d->process_count++] = added;
}

/*
 * A program that cannot call fake_set gets its GPUs by variables: FAKE_NVML_GPUS is their number, and
 * the pids of FAKE_NVML_PIDS (with spaces between) are spread over them in turn.
 */
__attribute__((constructor)) static void fake_from_environment(void) {
  const char *count = getenv("FAKE_NVML_GPUS");
  if (count == NULL) return;
  fake_reset();
  gpu_count = atoi(count);
  if (gpu_count < 1 || gpu_count > GPUS) gpu_count = 1;
  const char *list = getenv("FAKE_NVML_PIDS");
  for (int i = 0; list != NULL && *list != 0; i++) {
    char *end;
    unsigned long pid = strtoul(list, &end, 10);
    if (end == list) break;
    fake_add_process(i % gpu_count, -1, 0, (uint32_t)pid, gib(1) / 4 + ((uint64_t)(i * 37 % 100) << 20));
    list = end;
  }
}

/* How often something was called. */
int fake_calls(const char *what) {
  if (!strcmp(what, "init")) return inits;
  if (!strcmp(what, "shutdown")) return shutdowns;
  return memory_calls;
}

int nvmlInit_v2(void) {
  if (init_code != OK) return init_code;
  inits++;
  ready++;
  return OK;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  return nvmlInit_v2();
}

int nvmlShutdown(void) {
  if (ready == 0) return UNINITIALIZED;
  shutdowns++;
  ready--;
  return OK;
}

static int check(device_t *d) {
  if (ready == 0) return UNINITIALIZED;
  if (d->lost || gpus[d->number].lost) return LOST;
  if (d->instance >= 0 && !d->present) return INVALID_ARGUMENT;
  return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  snprintf(text, size, "580.00.fake");
  return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  if (ready == 0) return UNINITIALIZED;
  *count = (unsigned)gpu_count;
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **handle) {
  if (ready == 0) return UNINITIALIZED;
  if ((int)index >= gpu_count) return INVALID_ARGUMENT;
  if (gpus[index].handle_code) return gpus[index].handle_code;
  *handle = &gpus[index];
  return OK;
}

int nvmlDeviceGetName(device_t *d, char *text, unsigned size) {
  int code = check(d);
  if (code) return code;
  if (d->instance < 0) snprintf(text, size, "Fake H200");
  else snprintf(text, size, "Fake H200 MIG 1g.20gb");
  return OK;
}

int nvmlDeviceGetUUID(device_t *d, char *text, unsigned size) {
  int code = check(d);
  if (code) return code;
  if (d->uuid_code) return d->uuid_code;
  if (d->instance < 0) snprintf(text, size, "GPU-fake-%d", d->number);
  else snprintf(text, size, "MIG-fake-%d-%d", d->number, d->instance);
  return OK;
}

int nvmlDeviceGetMemoryInfo(device_t *d, uint64_t *info) {
  int code = check(d);
  memory_calls++;
  if (code) return code;
  if (d->memory_code) return d->memory_code;
  info[0] = d->total;
  info[1] = d->total - d->used - d->reserved;
  info[2] = d->used + d->reserved;
  return OK;
}

#ifndef WITHOUT_MEMORY_V2
int nvmlDeviceGetMemoryInfo_v2(device_t *d, uint64_t *info) {
  uint32_t version;
  int code = check(d);
  memory_calls++;
  if (code) return code;
  if (d->memory_v2_code) return d->memory_v2_code;
  if (d->memory_code) return d->memory_code;
  memcpy(&version, info, sizeof version);
  if (version != 0x02000028) return VERSION_REFUSED;
  info[1] = d->total;
  info[2] = d->reserved;
  info[3] = d->total - d->used - d->reserved;
  info[4] = d->used;
  return OK;
}
#endif

#ifndef WITHOUT_UTILIZATION
int nvmlDeviceGetUtilizationRates(device_t *d, uint32_t *rates) {
  int code = check(d);
  if (code) return code;
  if (d->utilization_code) return d->utilization_code;
  rates[0] = d->utilization;
  rates[1] = 99;
  return OK;
}
#endif

#ifndef WITHOUT_MIG
int nvmlDeviceGetMigMode(device_t *d, unsigned *current, unsigned *pending) {
  int code = check(d);
  if (code) return code;
  *current = *pending = (unsigned)d->mig_mode;
  return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t *d, unsigned *count) {
  (void)d;
  *count = INSTANCES;
  return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t *d, unsigned index, device_t **handle) {
  if (index >= INSTANCES || !d->instances[index].present) return NOT_FOUND;
  *handle = &d->instances[index];
  return OK;
}
#endif

/* Other monitors ask for it, and take this answer as a card that cannot tell. */
int nvmlDeviceGetProcessUtilization(device_t *d, void *samples, unsigned *count, uint64_t since) {
  (void)d, (void)samples, (void)count, (void)since;
  return NOT_SUPPORTED;
}

static int list_processes(device_t *d, int graphics, int width, unsigned *count, char *records) {
  int code = check(d);
  unsigned wanted = 0;
  if (code) return code;
  if (d->processes_code) return d->processes_code;
  for (int i = 0; i < d->process_count; i++) wanted += d->processes[i].graphics == graphics;
  if (*count < wanted) {
    /* Others may start between this answer and the next call. */
    for (; d->late_processes > 0; d->late_processes--)
      for (int i = 0; i < 20; i++)
        fake_add_process(d->number, d->instance, graphics, (uint32_t)(900000 + d->process_count), 1 << 20);
    *count = wanted;
    return INSUFFICIENT_SIZE;
  }
  unsigned at = 0;
  for (int i = 0; i < d->process_count; i++) {
    process_t *p = &d->processes[i];
    char *record = records + (size_t)at * (size_t)width;
    if (p->graphics != graphics) continue;
    memset(record, 0, (size_t)width);
    memcpy(record, &p->pid, 4);
    memcpy(record + 8, &p->used, 8);
    if (width >= 24) memset(record + 16, 0xff, 8); /* no GPU instance, no compute instance */
    at++;
  }
  *count = at;
  return OK;
}

#define LISTS(name, graphics)                                                              \
  int nvmlDeviceGet##name##RunningProcesses(device_t *d, unsigned *count, char *records) { \
    return list_processes(d, graphics, 16, count, records);                                \
  }
#define LISTS_V2(name, graphics)                                                              \
  int nvmlDeviceGet##name##RunningProcesses_v2(device_t *d, unsigned *count, char *records) { \
    return list_processes(d, graphics, 24, count, records);                                   \
  }
#define LISTS_V3(name, graphics)                                                              \
  int nvmlDeviceGet##name##RunningProcesses_v3(device_t *d, unsigned *count, char *records) { \
    return list_processes(d, graphics, stride, count, records);                               \
  }

LISTS(Compute, 0)
LISTS(Graphics, 1)
#ifndef WITHOUT_PROCESSES_V2
LISTS_V2(Compute, 0)
LISTS_V2(Graphics, 1)
#endif
#ifndef WITHOUT_PROCESSES_V3
LISTS_V3(Compute, 0)
LISTS_V3(Graphics, 1)
#endif
