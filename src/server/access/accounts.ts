import { execFile } from 'node:child_process';
import type { Account } from '../../run/account.js';

/** A directory service that does not answer is not waited for. */
const timeoutMs = 5000;

/**
 * The Unix account of a name or a uid, as the machine knows it; undefined where there is none.
 *
 * @example
 * await findAccount('ada'); // { uid: 1000, gid: 1000, name: 'ada', home: ..., shell: '/bin/bash' }
 */
export function findAccount(nameOrUid: string): Promise<Account | undefined> {
  return new Promise((resolve) => {
    execFile('getent', ['passwd', nameOrUid], { timeout: timeoutMs }, (error, stdout) => {
      resolve(error === null ? accountOf(stdout.split('\n', 1)[0] ?? '') : undefined);
    });
  });
}

/** `name:password:uid:gid:comment:home:shell`. */
function accountOf(line: string): Account | undefined {
  const [name = '', , uid = '', gid = '', , home = '', shell = ''] = line.split(':');
  if (name === '' || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return undefined;
  return { uid: Number(uid), gid: Number(gid), name, home, shell: shell || '/bin/sh' };
}
