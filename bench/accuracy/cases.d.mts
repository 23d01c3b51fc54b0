import type { TraceSource } from '../../src/estimate/trace/python-trace.js';
import type { Workload } from '../../src/estimate/types.js';

interface Folders {
  readonly configs: readonly string[];
  readonly scripts: readonly string[];
}

interface MeasuredCase {
  readonly id: string;
  readonly family: string;
  readonly source: TraceSource;
  readonly workload: Workload;
  readonly measured: {
    readonly params: number;
    readonly peak_allocated: number;
    readonly peak_reserved: number;
  };
}

export const truthFolders: Folders;
export function readCases(file: string, folders: Folders): MeasuredCase[];
