import type { EnforcedLimit } from '../types.js';
import { type LimitCgroup, makeLimitCgroup } from './cgroup.js';

/** A limit that was set, ready for a process to start under it. */
export interface LimitSetup {
  readonly enforced: EnforcedLimit;
  readonly cgroup: LimitCgroup | undefined;
  readonly addressSpaceBytes: number | undefined;
}

/**
 * Makes `--memory` hold for an attempt: on a GPU through the SDK, on the host by a cgroup where we
 * may make one, else by the address space.
 */
export function enforceLimit(options: {
  readonly memoryBytes: number | undefined;
  readonly device: string;
  /** The same for people, where it is simulated. */
  readonly deviceWords?: string;
  /** Of the run and the attempt: no two are alike. */
  readonly name: string;
  readonly procRoot: string;
  readonly platform: NodeJS.Platform;
  /** The attempt runs already, in the cgroup of its name. */
  readonly isRunning?: boolean;
  readonly make?: typeof makeLimitCgroup;
}): LimitSetup {
  const { memoryBytes, device, procRoot, name } = options;
  const nothing = { cgroup: undefined, addressSpaceBytes: undefined };
  if (memoryBytes === undefined) {
    return { ...nothing, enforced: { bytes: 'none', by: 'none', why: 'No --memory was given.' } };
  }
  const enforced = { bytes: memoryBytes };
  if (device !== 'host') {
    const why = `On ${options.deviceWords ?? device} the SDK holds it, in programs that use PyTorch.`;
    return { ...nothing, enforced: { ...enforced, by: 'sdk', why } };
  }
  const made =
    options.platform === 'linux'
      ? (options.make ?? makeLimitCgroup)({
          procRoot,
          name,
          limitBytes: memoryBytes,
          isRunning: options.isRunning,
        })
      : { why: `there are none on ${options.platform}` };
  if ('folder' in made) {
    const why = 'The kernel counts all processes of the job together.';
    return {
      ...nothing,
      cgroup: made,
      enforced: { ...enforced, by: `cgroup-v${made.version}`, why },
    };
  }
  const why = `No cgroup: ${made.why}. The address space of each process is limited instead.`;
  return {
    ...nothing,
    addressSpaceBytes: memoryBytes,
    enforced: { ...enforced, by: 'address-space', why },
  };
}
