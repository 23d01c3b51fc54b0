import { beyondQuota, type QuotaOf } from '../../quota.js';
import type { NewJob } from '../../store/records.js';
import { ownerName } from '../../types.js';
import type { JobRequest, Submitter } from '../types.js';

/** The word is the sender's own: it never answers another user's job. */
export function submissionOf({ submission }: JobRequest, { name }: Submitter): string | undefined {
  return submission === undefined || name === ownerName ? submission : `${name}/${submission}`;
}

/** The job with its owner. One that alone passes his quota is refused: it would wait for ever. */
export function ownedJob(
  job: Omit<NewJob, 'owner'>,
  { name, account }: Submitter,
  quotaOf: QuotaOf | undefined,
): NewJob {
  const refused =
    job.refused ?? beyondQuota(name, { ...job.need, alone: job.alone }, quotaOf?.(name));
  const details = account === undefined ? job.details : { ...job.details, account };
  return { ...job, owner: name, details, refused };
}
