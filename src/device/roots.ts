/** Where the machine's own files are; tests hand in folders they made. */
export interface Roots {
  readonly proc: string;
  readonly sys: string;
  readonly dev: string;
}

export const machineRoots: Roots = { proc: '/proc', sys: '/sys', dev: '/dev' };
