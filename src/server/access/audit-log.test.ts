import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AuditEntry, AuditLog, appendAudit, auditFile, readAudit } from './audit-log.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-audit-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const entry = (who: string): Omit<AuditEntry, 'at'> => ({
  who,
  via: 'token',
  from: '127.0.0.1',
  action: 'submit',
  outcome: 'done',
  job: '7',
});

function openLog(nowMs: () => number = () => 0): { log: AuditLog; warnings: string[] } {
  const warnings: string[] = [];
  return {
    log: new AuditLog({ home, epochMs: nowMs, trouble: (line) => warnings.push(line) }),
    warnings,
  };
}

it('adds a line for each entry, for its owner alone to read', () => {
  const { log } = openLog();
  log.write(entry('ada'));
  appendAudit(home, { at: '1970-01-01T00:00:01.000Z', ...entry('bob') });
  expect(readFileSync(auditFile(home), 'utf8').split('\n')).toHaveLength(3);
  expect(statSync(auditFile(home)).mode & 0o777).toBe(0o600);
  expect(readAudit(home, 10)).toEqual([
    { at: '1970-01-01T00:00:00.000Z', ...entry('ada') },
    { at: '1970-01-01T00:00:01.000Z', ...entry('bob') },
  ]);
  expect(readAudit(home, 1).map(({ who }) => who)).toEqual(['bob']);
});

it('keeps the last files of a fixed size, and reads through all of them', () => {
  const { log } = openLog();
  const size = 8 * 1024 * 1024;
  for (let round = 0; round < 7; round++) {
    log.write(entry(`user${round}`));
    const filler = `${'x'.repeat(size)}\n`;
    writeFileSync(auditFile(home), filler, { flag: 'a' });
  }
  log.write(entry('last'));
  expect(readdirSync(home)).toHaveLength(5);
  expect(readAudit(home, 100).map(({ who }) => who)).toEqual([
    'user3',
    'user4',
    'user5',
    'user6',
    'last',
  ]);
});

const idle = { outcome: 'refused', code: 'role-not-allowed', job: undefined } as const;

it.each([
  ['strangers', { ...entry('unknown'), ...idle, via: 'none' }],
  ['refusals of one person', { ...entry('eve'), ...idle }],
  ['refusals of one person about a job', { ...entry('eve'), ...idle, job: '7' }],
  ['logins of one person', { ...entry('eve'), job: undefined, action: 'login' }],
] as const)('takes so many entries about %s in a minute, and all that others did', (_, one) => {
  let now = 1_000_000;
  const { log } = openLog(() => now);
  for (let tries = 0; tries < 1000; tries++) log.write(one);
  log.write({ ...entry('ada'), ...idle });
  for (let tries = 0; tries < 40; tries++) log.write(entry('eve'));
  expect(readAudit(home, 10_000)).toHaveLength(71);
  now += 59_999;
  log.write(one);
  expect(readAudit(home, 10_000)).toHaveLength(71);
  now += 1;
  log.write(one);
  expect(readAudit(home, 10_000)).toHaveLength(72);
});

it('takes all that a user did whose name stands for strangers', () => {
  const { log } = openLog();
  for (let tries = 0; tries < 1000; tries++)
    log.write({ ...entry('unknown'), ...idle, via: 'none' });
  for (let tries = 0; tries < 40; tries++) log.write(entry('unknown'));
  log.write({ ...entry('unknown'), ...idle });
  expect(readAudit(home, 10_000)).toHaveLength(71);
});

it('leaves out what is no entry', () => {
  appendAudit(home, { at: 'a', ...entry('ada') });
  writeFileSync(
    auditFile(home),
    'null\n{}\n{"at":1}\n{"at":"b"}\n{"who":"x"}\nnot json\n{"at":"b","wh',
    { flag: 'a' },
  );
  expect(readAudit(home, 10)).toHaveLength(1);
});

it('follows no link, and says once that it cannot be written', () => {
  const target = join(home, 'target');
  writeFileSync(target, '');
  chmodSync(target, 0o600);
  symlinkSync(target, auditFile(home));
  const { log, warnings } = openLog();
  log.write(entry('ada'));
  log.write(entry('ada'));
  expect(warnings).toEqual([expect.stringMatching(/the audit log cannot be written/)]);
  expect(readFileSync(target, 'utf8')).toBe('');
  rmSync(auditFile(home));
  log.write(entry('ada'));
  rmSync(auditFile(home));
  symlinkSync(target, auditFile(home));
  log.write(entry('ada'));
  expect(warnings).toHaveLength(2);
});
