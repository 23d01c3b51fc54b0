import { spawn } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newUserToken, openUserStore, type User, type UserStore, usersFile } from './user-store.js';

let home: string;
const open: UserStore[] = [];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-users-'));
});
afterEach(() => {
  for (const store of open.splice(0)) store.close();
  rmSync(home, { recursive: true, force: true });
});

async function openStore(): Promise<UserStore> {
  const store = await openUserStore(home);
  open.push(store);
  return store;
}

function userOf(
  name: string,
  parts: Partial<User> = {},
): { readonly user: User; readonly token: string } {
  const { token, id, hash } = newUserToken();
  const user: User = {
    name,
    role: 'user',
    tokenId: id,
    tokenHash: hash,
    maxMemoryBytes: undefined,
    maxJobs: undefined,
    account: undefined,
    addedAt: '2026-11-16T00:00:00.000Z',
    ...parts,
  };
  return { user, token };
}

describe('the users of a home', () => {
  it('are kept, changed and removed, and another process sees it at once', async () => {
    const [mine, other] = [await openStore(), await openStore()];
    const ada = userOf('ada', { maxMemoryBytes: 40, account: 'ada' });
    expect([other.list(), other.byToken(ada.token)]).toEqual([[], undefined]);
    mine.add(ada.user);
    expect(other.byToken(ada.token)).toEqual(ada.user);
    expect([
      other.byName('ada'),
      other.byAccount('ada'),
      other.byTokenId(ada.user.tokenId),
    ]).toEqual([ada.user, ada.user, ada.user]);
    mine.change('ada', { role: 'viewer', maxMemoryBytes: null, maxJobs: 3 });
    expect(other.byName('ada')).toEqual({
      ...ada.user,
      role: 'viewer',
      maxMemoryBytes: undefined,
      maxJobs: 3,
    });
    mine.remove('ada');
    expect([other.byToken(ada.token), other.list()]).toEqual([undefined, []]);
  });

  it('keep no token, and are in a file that only their owner reads', async () => {
    const store = await openStore();
    const ada = userOf('ada');
    store.add(ada.user);
    expect(readFileSync(usersFile(home)).includes(ada.token.slice(16))).toBe(false);
    expect(statSync(usersFile(home)).mode & 0o777).toBe(0o600);
  });

  it('know a token by all of it', async () => {
    const store = await openStore();
    const ada = userOf('ada');
    store.add(ada.user);
    const last = ada.token.endsWith('A') ? 'B' : 'A';
    expect(store.byToken(`${ada.token.slice(0, -1)}${last}`)).toBeUndefined();
    expect(store.byToken(`pu_${ada.user.tokenId}_`)).toBeUndefined();
    const { token, id, hash } = newUserToken();
    store.change('ada', { token: { id, hash } });
    expect([store.byToken(ada.token), store.byToken(token)?.name]).toEqual([undefined, 'ada']);
  });

  it('are not doubled, and not made up', async () => {
    const store = await openStore();
    store.add(userOf('ada').user);
    expect(() => store.add(userOf('ada').user)).toThrow(/There is a user ada already/);
    expect(() => store.change('bob', {})).toThrow(/There is no user "bob".*There are ada/);
    expect(() => store.remove('bob')).toThrow(/There is no user/);
  });

  it.each([
    ['others can read', () => chmodSync(usersFile(home), 0o644), 'users-file-readable'],
    [
      'is a folder',
      () => {
        rmSync(usersFile(home));
        mkdirSync(usersFile(home));
      },
      'bad-users-file',
    ],
    [
      'is no database',
      () => {
        rmSync(usersFile(home));
        writeFileSync(usersFile(home), 'x'.repeat(5000), { mode: 0o600 });
      },
      'broken-store',
    ],
  ])('are not read from a file that %s', async (_, spoil, code) => {
    (await openStore()).add(userOf('ada').user);
    spoil();
    const store = await openStore();
    expect(() => store.list()).toThrow(expect.objectContaining({ code }));
  });

  it('are read anew from a file that was put in the place of the first', async () => {
    const store = await openStore();
    store.add(userOf('ada').user);
    rmSync(usersFile(home));
    expect(store.list()).toEqual([]);
    (await openStore()).add(userOf('bob').user);
    expect(store.list().map(({ name }) => name)).toEqual(['bob']);
  });
});

describe('several processes that change users', () => {
  /** Adds users until it is killed, and prints each name after it was acknowledged. */
  async function child(): Promise<string> {
    const root = fileURLToPath(new URL('../../../..', import.meta.url));
    symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'));
    await build({
      entryPoints: [fileURLToPath(new URL('user-child-for-tests.ts', import.meta.url))],
      outfile: join(home, 'child.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['@photostructure/sqlite'],
    });
    return join(home, 'child.mjs');
  }

  function killedAfter(program: string, word: string, lines: number): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      const adder = spawn(process.execPath, [program, home, word], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let printed = '';
      adder.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        if (printed.split('\n').length > lines) adder.kill('SIGKILL');
      });
      adder.once('error', reject);
      adder.once('close', () => resolve(printed.split('\n').slice(0, -1)));
    });
  }

  it('lose nothing that was acknowledged, whenever they are killed', async () => {
    const program = await child();
    const printed: string[] = [];
    for (const [round, lines] of [1, 4, 9].entries()) {
      const both = await Promise.all(
        ['a', 'b'].map((word) => killedAfter(program, `${word}${round}`, lines)),
      );
      printed.push(...both.flat());
      const store = await openUserStore(home);
      const names = store.list().map(({ name }) => name);
      store.close();
      expect(printed.filter((name) => !names.includes(name))).toEqual([]);
      expect(new Set(names).size).toBe(names.length);
    }
    expect(printed.length).toBeGreaterThan(20);
  });
});
