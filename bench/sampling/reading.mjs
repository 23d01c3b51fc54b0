// One memory reading of a GPU: from C, and through the library, turn by turn in the same run.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { libraryCandidates } from '../../dist/device/nvml/library.js';
import { nvmlProvider } from '../../dist/device/nvml/provider.js';
import { median } from '../statistics.mjs';

/**
 * The same reading from C. It takes lines "VERSION CALLS" (version 1 or 2) on stdin, makes that many
 * calls for the first GPU, and answers each line with "CODE NANOSECONDS".
 */
const source = String.raw`
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef struct { uint64_t total, free, used; } memory_v1;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;
typedef int (*memory_call)(void *device, void *memory);

static int64_t now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int main(int argc, char **argv) {
  void *library = NULL;
  for (int i = 1; i < argc && !library; i++) library = dlopen(argv[i], RTLD_NOW);
  if (!library) { puts("no-library"); return 3; }
  int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
  int (*find)(unsigned, void **) =
      (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
  memory_call calls[] = {
      NULL,
      (memory_call)dlsym(library, "nvmlDeviceGetMemoryInfo"),
      (memory_call)dlsym(library, "nvmlDeviceGetMemoryInfo_v2"),
  };
  void *device = NULL;
  if (!init || !find || init() != 0 || find(0, &device) != 0) { puts("no-gpu"); return 3; }
  puts("ready");
  fflush(stdout);

  int version;
  long count;
  while (scanf("%d %ld", &version, &count) == 2) {
    memory_v1 first = {0};
    memory_v2 second = {.version = sizeof(memory_v2) | 2u << 24};
    memory_call call = version == 1 || version == 2 ? calls[version] : NULL;
    void *memory = version == 1 ? (void *)&first : (void *)&second;
    int code = call ? 0 : 13;
    int64_t begin = now();
    for (long i = 0; i < count && code == 0; i++) code = call(device, memory);
    printf("%d %lld\n", code, (long long)(now() - begin));
    fflush(stdout);
  }
  return 0;
}
`;

/** @returns the figures, or `{ skipped }` with the reason */
export async function measureReading({ rounds, calls, library }) {
  const provider = nvmlProvider(library === undefined ? {} : { libraryPath: library });
  try {
    const { devices, notes } = await provider.list();
    const device = devices.find(({ info }) => !info.id.includes('/mig:'));
    if (!device) return { skipped: `no NVIDIA GPU here. ${notes.join(' ')}`.trim() };
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-bench-'));
    try {
      const program = compile(folder);
      if (!program) return { skipped: 'no C compiler (cc or gcc) here' };
      const places =
        library === undefined ? libraryCandidates(process.platform, process.env) : [library];
      return await alternate(device, program, places, { rounds, calls });
    } finally {
      rmSync(folder, { recursive: true });
    }
  } finally {
    provider.close();
  }
}

function compile(folder) {
  const program = join(folder, 'nvml-in-c');
  writeFileSync(`${program}.c`, source);
  for (const compiler of ['cc', 'gcc']) {
    const { error, status, stderr } = spawnSync(
      compiler,
      ['-O2', '-o', program, `${program}.c`, '-ldl'],
      { encoding: 'utf8' },
    );
    if (error) continue;
    if (status !== 0) throw new Error(`${compiler} failed: ${stderr}`);
    return program;
  }
  return undefined;
}

async function alternate(device, program, places, { rounds, calls }) {
  const child = spawn(program, places, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => (await lines.next()).value ?? 'ended';
  const fromC = async (version) => {
    child.stdin.write(`${version} ${calls}\n`);
    const [code, nanoseconds] = (await answer()).split(' ').map(Number);
    return code === 0 ? nanoseconds / calls / 1000 : undefined;
  };
  try {
    const ready = await answer();
    if (ready !== 'ready') return { skipped: `C sees no GPU: ${ready}` };
    const microseconds = { c1: [], c2: [], memory: [], whole: [] };
    // The first rounds warm up the driver and let V8 compile; they do not count.
    for (let round = -5; round < rounds; round++) {
      const taken = {
        c2: await fromC(2),
        memory: time(calls, () => device.readMemoryBytes()),
        c1: await fromC(1),
        whole: time(calls, () => device.read()),
      };
      if (round < 0) continue;
      for (const [name, value] of Object.entries(taken)) {
        if (value !== undefined) microseconds[name].push(value);
      }
    }
    // We use version 2 wherever the driver has it: compare like with like.
    const same = microseconds.c2.length > 0 ? microseconds.c2 : microseconds.c1;
    return {
      device: device.info.name,
      driver: device.info.driver,
      rounds,
      calls,
      cVersion2Us: known(microseconds.c2),
      cVersion1Us: known(microseconds.c1),
      plimsollUs: median(microseconds.memory),
      withUtilizationUs: median(microseconds.whole),
      ratio: median(microseconds.memory) / median(same),
    };
  } finally {
    child.stdin.end();
  }
}

function known(values) {
  return values.length === 0 ? 'unknown' : median(values);
}

/** Microseconds a call. */
function time(calls, read) {
  const begin = performance.now();
  for (let call = 0; call < calls; call++) read();
  return ((performance.now() - begin) * 1000) / calls;
}
