import { Failure } from '../../failure.js';
import type { JobRequest, Submitter } from '../../jobs/daemon/types.js';
import { ownerName } from '../../jobs/types.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Account } from '../../run/account.js';
import type { SubmitterOf } from '../routes/job-routes.js';
import type { Identity } from './identity.js';

/**
 * What the jobs of people run as. A server that is not root runs all of them as itself. One that is
 * root runs those of its owner as root, and those of a user as the Unix account that was set for him:
 * never as root, unless that account is root.
 */
export function submitters(
  serverUid: number | undefined,
  findAccount: (name: string) => Promise<Account | undefined>,
): SubmitterOf {
  return (identity, request) => submitterOf(identity, request, serverUid, findAccount);
}

async function submitterOf(
  identity: Identity,
  request: JobRequest,
  serverUid: number | undefined,
  findAccount: (name: string) => Promise<Account | undefined>,
): Promise<Submitter> {
  const { name, account: wanted } = identity;
  if (serverUid !== 0 || name === ownerName) return { name };
  if (wanted === undefined) throw noAccount(name);
  const account = await findAccount(wanted);
  if (account === undefined || (identity.uid ?? account.uid) !== account.uid) {
    throw unknownAccount(name, wanted);
  }
  if (account.uid === 0) return { name };
  requireNoFiles(identity, request.workload);
  return { name, account };
}

/** Whether a server that is root would read files for somebody who is not. */
export function readsForOthers(
  { name, account }: Pick<Identity, 'name' | 'account'>,
  serverUid: number | undefined,
): boolean {
  return serverUid === 0 && name !== ownerName && account !== 'root';
}

/** Estimates are made by the server: one that is root reads no file, and runs no script, for others. */
export function requireNoFiles(
  { name }: Pick<Identity, 'name'>,
  workload: WorkloadRequest | undefined,
): void {
  if (workload?.script === undefined && !workload?.model?.startsWith('/')) return;
  throw new Failure({
    kind: 'input',
    code: 'not-as-root',
    fact: `The server runs as root, and reads no model files and runs no scripts for ${name}.`,
    next: 'Give the memory (--memory 6GiB, or "memoryBytes"); "plimsoll estimate" on your own account finds it.',
  });
}

function noAccount(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-account',
    fact: `The server runs as root, and ${name} has no Unix account that jobs could run as.`,
    next: `On the machine of the server: plimsoll users change ${name} --account UNIXNAME ("root" lets the jobs run as root).`,
  });
}

function unknownAccount(name: string, account: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-account',
    fact: `The Unix account ${account} of ${name} does not exist on the server.`,
    next: `Make it, or set another: plimsoll users change ${name} --account UNIXNAME`,
  });
}
