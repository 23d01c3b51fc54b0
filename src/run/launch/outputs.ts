/** One of our own outputs, as bytes. */
export interface RawOutput {
  readonly fd: number;
  readonly isTerminal: boolean;
  /** How large it is now; undefined where it is no terminal. */
  size(): { readonly columns: number; readonly rows: number } | undefined;
  /** Only the log of a job has it: told of bytes that the kernel moved there. */
  readonly moved?: (bytes: Uint8Array) => void;
  /** Only the log of a job has it: says in the log that something is missing, if it is and there is room. */
  readonly noteGap?: () => Promise<void>;
  /** Resolves when the bytes are gone; rejects when the reader is gone. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Which of the program's outputs share a way to us. */
export interface OutputPlan {
  readonly name: 'stdout' | 'stderr' | 'both';
  readonly to: RawOutput;
  readonly as: 'terminal' | 'pipe';
}

/**
 * How the program's output gets to ours: one way for both where ours are one (a terminal, `2>&1`),
 * so that the order of what it prints stays as it was.
 */
export function planOutputs(options: {
  readonly stdout: RawOutput;
  readonly stderr: RawOutput;
  readonly areOne: boolean;
  /** With `--json` stdout is for the document. */
  readonly keepStdoutFree: boolean;
}): readonly OutputPlan[] {
  const { stdout, stderr } = options;
  const as = (output: RawOutput) => (output.isTerminal ? 'terminal' : 'pipe');
  if (options.keepStdoutFree) return [{ name: 'both', to: stderr, as: as(stderr) }];
  const bothTerminals = stdout.isTerminal && stderr.isTerminal;
  if (options.areOne || bothTerminals) return [{ name: 'both', to: stdout, as: as(stdout) }];
  return [
    { name: 'stdout', to: stdout, as: as(stdout) },
    { name: 'stderr', to: stderr, as: as(stderr) },
  ];
}
