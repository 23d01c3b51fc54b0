import { freemem, totalmem } from 'node:os';
import { hostProvider } from '../device/host/provider.js';
import { Failure } from '../failure.js';
import { checkOptions, elsewhere, fileName } from '../units/arguments.js';
import { parseBytes } from '../units/bytes.js';
import { isKnown } from '../units/known.js';

export interface BufferStoreOptions {
  /** Memory for items: `'1GiB'`, bytes, or `'auto'`, which follows what the machine has free. */
  readonly limit?: number | string;
  /** The folder for large items; without it all items stay in memory. */
  readonly folder?: string;
  /** Items of this size or more, as they are kept, lie in files. 1 MiB. */
  readonly fileAbove?: number | string;
  /** All files together. 10 GiB. */
  readonly fileLimit?: number | string;
  /** `'auto'` compresses what shrinks; `'none'` compresses nothing. */
  readonly compression?: 'auto' | 'none';
}

export interface StoreSettings {
  readonly limitBytes: number | 'auto';
  readonly folder: string | undefined;
  readonly fileAboveBytes: number;
  readonly fileLimitBytes: number;
  readonly compress: boolean;
}

const store = 'a buffer store';

/** Checked, in bytes. */
export function storeSettings(options: BufferStoreOptions): StoreSettings {
  checkOptions(store, options, {
    limit: elsewhere,
    folder: fileName,
    fileAbove: elsewhere,
    fileLimit: elsewhere,
    compression: elsewhere,
  });
  const { limit = 'auto', compression = 'auto' } = options;
  if (compression !== 'auto' && compression !== 'none') {
    throw bad('compression', 'Pass "auto" or "none".');
  }
  return {
    limitBytes: limit === 'auto' ? 'auto' : sizeOption('limit', limit),
    folder: options.folder,
    fileAboveBytes: sizeOption('fileAbove', options.fileAbove ?? 2 ** 20),
    fileLimitBytes: sizeOption('fileLimit', options.fileLimit ?? 10 * 2 ** 30),
    compress: compression === 'auto',
  };
}

/** A size as a number or as text, checked; `owner` is what the option belongs to. */
export function sizeOption(name: string, value: number | string, owner = store): number {
  const bytes = typeof value === 'string' ? parseBytes(value) : value;
  if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes;
  throw bad(name, 'Pass a size such as "1GiB", or a whole number of bytes.', owner);
}

function bad(name: string, next: string, owner = store): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: `The option ${name} of ${owner} is not valid.`,
    next,
    field: name,
  });
}

export interface MemoryReading {
  readonly usedBytes: number;
  readonly totalBytes: number;
}

/** Reads the memory of this machine, or of the cgroup that this process is in. */
export function hostMemory(): () => Promise<MemoryReading | undefined> {
  const provider = hostProvider();
  return async () => {
    const [host] = (await provider.list()).devices;
    const { usedBytes = 'unknown', totalBytes = 'unknown' } = (await host?.read()) ?? {};
    return isKnown(usedBytes) && isKnown(totalBytes) ? { usedBytes, totalBytes } : undefined;
  };
}

/** A reading at once, until the first one with cgroups arrives. */
export function firstReading(): MemoryReading {
  const totalBytes = totalmem();
  return { usedBytes: totalBytes - freemem(), totalBytes };
}
