import { join } from 'node:path';
import type koffiModule from 'koffi';

/** The arguments of each NVML function we call. All return an int; pointers travel as numbers. */
const signatures = {
  nvmlInit_v2: [],
  nvmlShutdown: [],
  nvmlSystemGetDriverVersion: ['uintptr_t', 'uint32_t'],
  nvmlDeviceGetCount_v2: ['uintptr_t'],
  nvmlDeviceGetHandleByIndex_v2: ['uint32_t', 'uintptr_t'],
  nvmlDeviceGetName: ['uintptr_t', 'uintptr_t', 'uint32_t'],
  nvmlDeviceGetUUID: ['uintptr_t', 'uintptr_t', 'uint32_t'],
  nvmlDeviceGetMemoryInfo: ['uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMemoryInfo_v2: ['uintptr_t', 'uintptr_t'],
  nvmlDeviceGetUtilizationRates: ['uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMigMode: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMaxMigDeviceCount: ['uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMigDeviceHandleByIndex: ['uintptr_t', 'uint32_t', 'uintptr_t'],
  nvmlDeviceGetComputeRunningProcesses: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetComputeRunningProcesses_v2: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetComputeRunningProcesses_v3: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetGraphicsRunningProcesses: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetGraphicsRunningProcesses_v2: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetGraphicsRunningProcesses_v3: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMPSComputeRunningProcesses: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMPSComputeRunningProcesses_v2: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
  nvmlDeviceGetMPSComputeRunningProcesses_v3: ['uintptr_t', 'uintptr_t', 'uintptr_t'],
} as const;

export type NvmlSymbol = keyof typeof signatures;

/**
 * One function of the library. Handles and addresses are plain numbers: user space ends far below
 * 2^53, and koffi passes a number twice as fast as a BigInt or a Buffer.
 */
export type NvmlFunction = (...args: readonly number[]) => number;

/** The driver's library, loaded. */
export interface NvmlLibrary {
  readonly path: string;
  /** A function by name, or undefined where this driver has none of that name. */
  find(symbol: NvmlSymbol): NvmlFunction | undefined;
  /** Returns the address of a buffer; it stays the same as long as the buffer is referenced. */
  addressOf(buffer: ArrayBuffer): number;
}

/** Returns the possible paths of the library: its plain name for the linker, then the usual folders. */
export function libraryCandidates(
  platform: NodeJS.Platform,
  env: NodeJS.ProcessEnv,
): readonly string[] {
  if (platform === 'win32') {
    const windows = env['SystemRoot'] ?? 'C:\\Windows';
    const programs = env['ProgramW6432'] ?? 'C:\\Program Files';
    return [
      'nvml.dll',
      `${windows}\\System32\\nvml.dll`,
      `${programs}\\NVIDIA Corporation\\NVSMI\\nvml.dll`,
    ];
  }
  if (platform !== 'linux') return [];
  const name = 'libnvidia-ml.so.1';
  const folders = [
    '/usr/lib/x86_64-linux-gnu',
    '/usr/lib/aarch64-linux-gnu',
    '/usr/lib64',
    '/usr/local/nvidia/lib64',
    '/usr/local/nvidia/lib',
    '/run/opengl-driver/lib',
    '/usr/lib/wsl/lib',
  ];
  return [name, ...folders.map((folder) => join(folder, name))];
}

/** Loads the first library that can be; koffi itself is only loaded here, when it is needed. */
export async function loadNvml(paths: readonly string[]): Promise<NvmlLibrary | { why: string }> {
  let koffi: typeof koffiModule;
  try {
    koffi = (await import('koffi')).default;
  } catch (error) {
    return { why: `koffi, which calls it, could not be loaded: ${messageOf(error)}` };
  }
  let why = 'there is no NVML for this system';
  for (const path of paths) {
    let handle: ReturnType<typeof koffiModule.load>;
    try {
      handle = koffi.load(path);
    } catch (error) {
      // The plain name comes first, and its error says most: the folders are only guesses.
      if (path === paths[0]) why = `${path}: ${messageOf(error)}`;
      continue;
    }
    const found = new Map<NvmlSymbol, NvmlFunction | undefined>();
    return {
      path,
      find(symbol) {
        if (!found.has(symbol)) found.set(symbol, bind(handle, symbol));
        return found.get(symbol);
      },
      addressOf: (buffer) => Number(koffi.address(buffer)),
    };
  }
  return { why };
}

function bind(
  handle: ReturnType<typeof koffiModule.load>,
  symbol: NvmlSymbol,
): NvmlFunction | undefined {
  try {
    return handle.func(symbol, 'int', [...signatures[symbol]]);
  } catch {
    // koffi has one error for it: the library holds no such function.
    return undefined;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
