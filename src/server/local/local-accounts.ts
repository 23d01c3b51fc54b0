import { readFileSync } from 'node:fs';
import { findAccount } from '../access/accounts.js';

/** Names of accounts change so seldom that a minute's delay is no harm. */
const keptSeconds = 60;
/** More accounts than come within a minute. */
const maxKept = 10_000;

type NameOf = (uid: number) => Promise<string | undefined>;

/** The names of accounts, each asked of the machine at most once a minute. */
export function accountNames(seconds: () => number, ask: NameOf = askMachine): NameOf {
  const kept = new Map<number, { readonly until: number; readonly name: ReturnType<NameOf> }>();
  return (uid) => {
    const now = seconds();
    const before = kept.get(uid);
    if (before !== undefined && before.until > now) return before.name;
    if (kept.size >= maxKept) kept.clear();
    const name = ask(uid);
    kept.set(uid, { until: now + keptSeconds, name });
    // One that was not found may be added in the next moment.
    void name.then((found) => found === undefined && kept.delete(uid));
    return name;
  };
}

async function askMachine(uid: number): Promise<string | undefined> {
  const account = await findAccount(String(uid));
  return account?.uid === uid ? account.name : undefined;
}

/**
 * The uid that the kernel shows a server in a user namespace for every account outside of it: they
 * cannot be told apart. Undefined outside of such a namespace.
 */
export function overflowUid(procRoot: string): number | undefined {
  try {
    const map = readFileSync(`${procRoot}/self/uid_map`, 'utf8').trim().split(/\s+/);
    if (map.join(' ') === '0 0 4294967295') return undefined;
    return Number(readFileSync(`${procRoot}/sys/kernel/overflowuid`, 'utf8'));
  } catch {
    // No Linux.
    return undefined;
  }
}
