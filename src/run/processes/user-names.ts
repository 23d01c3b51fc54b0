import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Larger than any list of local accounts; a longer one is not read. */
const passwdLimitBytes = 4 * 1024 * 1024;
/** A directory service that does not answer leaves the number standing. */
const timeoutMs = 5000;

/** The names in a file of the form of /etc/passwd, by uid. */
export function parsePasswd(text: string): Map<number, string> {
  const names = new Map<number, string>();
  for (const line of text.split('\n')) {
    const [name = '', , uid = ''] = line.split(':');
    if (name !== '' && /^\d{1,10}$/.test(uid) && !names.has(Number(uid))) {
      names.set(Number(uid), name);
    }
  }
  return names;
}

/**
 * Names of accounts by uid. One that is not in the local file is asked of the machine's directory
 * (LDAP, SSSD) once, in the background; until the answer comes its number stands for it.
 */
export function openUserNames(path = '/etc/passwd'): (uid: number) => string {
  const names = readPasswd(path);
  return (uid) => {
    const known = names.get(uid);
    if (known !== undefined) return known;
    names.set(uid, String(uid));
    execFile('getent', ['passwd', String(uid)], { timeout: timeoutMs }, (_, stdout) => {
      const found = parsePasswd(stdout).get(uid);
      if (found !== undefined) names.set(uid, found);
    }).unref();
    return String(uid);
  };
}

function readPasswd(path: string): Map<number, string> {
  try {
    const bytes = readFileSync(path);
    return bytes.length > passwdLimitBytes ? new Map() : parsePasswd(bytes.toString('utf8'));
  } catch {
    return new Map();
  }
}
