import { Failure } from '../../failure.js';
import type { Submitter } from '../../jobs/daemon/types.js';
import { ownerName } from '../../jobs/types.js';
import { inCatalogue } from '../../plan/answers/source-of.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Account } from '../../run/types.js';
import type { SubmitterOf } from '../routes/job-routes.js';
import type { Identity } from './permissions.js';

/**
 * Chooses the accounts of people's jobs. A server that is not root runs all jobs as itself. A root
 * server runs its owner's jobs as root, and a user's jobs as the Unix account set for the user:
 * never as root, unless that account is root.
 */
export function submitters(
  serverUid: number | undefined,
  findAccount: (name: string) => Promise<Account | undefined>,
): SubmitterOf {
  return (identity) => submitterOf(identity, serverUid, findAccount);
}

async function submitterOf(
  identity: Identity,
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
  return account.uid === 0 ? { name } : { name, account };
}

/** Whether a server that is root would read files for a client who is not. */
function readsForOthers(
  { name, account }: Pick<Identity, 'name' | 'account'>,
  serverUid: number | undefined,
): boolean {
  return serverUid === 0 && name !== ownerName && account !== 'root';
}

/**
 * The workload as the server may estimate it for a client. One that is root runs no script and reads no
 * file for others, and looks for their models in its catalogue alone: a cache that they can write into
 * may hold links to files of root.
 */
export function readableFor<T extends WorkloadRequest>(
  identity: Pick<Identity, 'name' | 'account'>,
  workload: T,
  serverUid: number | undefined,
): T {
  if (!readsForOthers(identity, serverUid)) return workload;
  const { name } = identity;
  const { script, model } = workload;
  if (script === undefined && !model?.startsWith('/')) {
    return model === undefined ? workload : { ...workload, model: inCatalogue(model) };
  }
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
