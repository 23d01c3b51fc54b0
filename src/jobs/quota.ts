import type { QuotaReason, RefusalReason } from './reasons/types.js';
import type { Need, RunningJob } from './types.js';

/** Limits of one person; no limit if a figure is absent. */
export interface Quota {
  /** Reserved on all devices together. */
  readonly maxMemoryBytes?: number | undefined;
  /** Jobs that run. */
  readonly maxJobs?: number | undefined;
}

/** Asked each time that jobs are admitted, so that a change takes effect without a restart. */
export type QuotaOf = (owner: string) => Quota | undefined;

/** The current share of one person. */
export interface Share {
  readonly jobs: number;
  readonly bytes: number;
}

const noShare: Share = { jobs: 0, bytes: 0 };

/** Quotas against what runs. Quotas are asked for once, so that one decision sees one state. */
export class Shares {
  readonly #quotaOf: QuotaOf | undefined;
  readonly #quotas = new Map<string, Quota | undefined>();
  readonly #held = new Map<string, Share>();

  constructor(running: readonly RunningJob[], quotaOf: QuotaOf | undefined) {
    this.#quotaOf = quotaOf;
    if (quotaOf !== undefined) for (const job of running) this.add(job);
  }

  add({ owner, reservation }: RunningJob): void {
    if (owner === undefined || this.#quotaOf === undefined) return;
    const { jobs, bytes } = this.#held.get(owner) ?? noShare;
    const more = reservation.bytes * reservation.devices.length;
    this.#held.set(owner, { jobs: jobs + 1, bytes: bytes + more });
  }

  /** Why a job must wait though there may be room for it; undefined where its owner may have it. */
  waitsFor(
    { owner, bytes }: { readonly owner?: string | undefined; readonly bytes: number },
    devices: number,
  ): QuotaReason | undefined {
    if (owner === undefined || this.#quotaOf === undefined) return undefined;
    if (!this.#quotas.has(owner)) this.#quotas.set(owner, this.#quotaOf(owner));
    const quota = this.#quotas.get(owner);
    return quota && quotaReason(owner, bytes * devices, this.#held.get(owner) ?? noShare, quota);
  }
}

function quotaReason(
  owner: string,
  bytes: number,
  held: Share,
  quota: Quota,
): QuotaReason | undefined {
  const { maxJobs, maxMemoryBytes } = quota;
  if (maxJobs !== undefined && held.jobs >= maxJobs) {
    return { code: 'job-quota', owner, maxJobs, runningJobs: held.jobs };
  }
  if (maxMemoryBytes !== undefined && held.bytes + bytes > maxMemoryBytes) {
    return { code: 'memory-quota', owner, bytes, maxMemoryBytes, reservedBytes: held.bytes };
  }
  return undefined;
}

/** Why a job can never run within a quota; undefined where it can. */
export function beyondQuota(
  owner: string,
  need: Need & { readonly alone?: boolean | undefined },
  quota: Quota | undefined,
): RefusalReason | undefined {
  const maxMemoryBytes = quota?.maxMemoryBytes;
  const bytes = need.bytes * Math.max(1, need.gpus);
  if (maxMemoryBytes === undefined || bytes <= maxMemoryBytes) return undefined;
  const basis = need.alone === true ? 'unknown' : need.basis;
  return { code: 'over-quota', owner, bytes, basis, maxMemoryBytes };
}
