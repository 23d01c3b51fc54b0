import { join } from 'node:path';
import { machineRoots } from '../../device/roots.js';
import { Failure } from '../../failure.js';
import type { Clock } from '../../time/clock.js';
import { accountNames, overflowUid } from '../local/local-accounts.js';
import { openPeerReader } from '../local/peer-credentials.js';
import { usualSocket } from '../local/usual-socket.js';
import type { LocalAccess } from '../open-server.js';

export interface LocalAccessOptions {
  readonly home: string;
  /** Where it was asked to listen. */
  readonly socket?: string | undefined;
  /** Whether accounts other than that of the server may use it. */
  readonly localUsers?: boolean | undefined;
}

/**
 * The local socket of a server: in its home, for its owner alone, unless something else was asked
 * for. Undefined where this machine does not tell who connects.
 */
export async function localAccess(
  { home, socket, localUsers = false }: LocalAccessOptions,
  clock: Clock,
  uid: number | undefined = process.getuid?.(),
): Promise<LocalAccess | undefined> {
  if (localUsers && socket === undefined && uid !== 0) throw socketNeeded();
  const isOptional = !localUsers && socket === undefined;
  try {
    const unknown = overflowUid(machineRoots.proc);
    return {
      path: socket ?? (localUsers ? usualSocket : join(home, 'server.sock')),
      forAll: localUsers,
      isOptional,
      readPeer: await openPeerReader(),
      serverUid: uid,
      nameOf: accountNames(() => clock.seconds()),
      isUnknown: (one) => one === unknown,
    };
  } catch (error) {
    if (isOptional) return undefined;
    throw notHere(error);
  }
}

function socketNeeded(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--local-users needs --socket, because other accounts cannot reach a socket in your home.',
    next: 'Name a path in a folder that others can enter and only you can write to: --local-users --socket /srv/plimsoll/server.sock',
  });
}

function notHere(cause: unknown): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-local-socket',
    fact: `This machine does not tell which account connects to a socket: ${cause instanceof Error ? cause.message : String(cause)}.`,
    next: 'Leave out --socket and --local-users, and give people tokens: plimsoll users add NAME',
    cause,
  });
}
