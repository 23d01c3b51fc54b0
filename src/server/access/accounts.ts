import { spawnSync } from 'node:child_process';
import type { Account } from '../../run/account.js';

/** A directory service that does not answer must not hold up the server for longer. */
const timeoutMs = 2000;

/**
 * The Unix account of a name or a uid, as the machine knows it; undefined where there is none.
 *
 * @example
 * findAccount('ada'); // { uid: 1000, gid: 1000, name: 'ada', home: ..., shell: '/bin/bash' }
 */
export function findAccount(nameOrUid: string): Account | undefined {
  const { stdout } = spawnSync('getent', ['passwd', nameOrUid], {
    encoding: 'utf8',
    timeout: timeoutMs,
  });
  const [name = '', , uid = '', gid = '', , home = '', shell = ''] = (stdout ?? '')
    .split('\n', 1)[0]
    ?.split(':') ?? [''];
  if (name === '' || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return undefined;
  return { uid: Number(uid), gid: Number(gid), name, home, shell: shell || '/bin/sh' };
}
