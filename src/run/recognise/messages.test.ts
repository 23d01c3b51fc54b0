import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { concludeOutOfMemory, wasShort } from '../attempt.js';
import { createScanner } from './scanner.js';

/** The same file is read by python/tests/sdk/test_common_rules.py. */
interface Message {
  readonly from: string;
  readonly type: string;
  readonly text: string;
  readonly kind: string | null;
  readonly when: 'always' | 'short' | 'never';
  readonly askedBytes: number | null;
}
const { messages }: { messages: readonly Message[] } = JSON.parse(
  readFileSync(`${root}test/fixtures/out-of-memory-messages.json`, 'utf8'),
);

/** What a supervisor concludes of a program that ended with this, as Python prints it. */
function concluded({ type, text }: Message, memoryWasShort: boolean) {
  const scanner = createScanner();
  const line = type === '' ? text : `${type}: ${text}`;
  scanner.take(Buffer.from(`Traceback (most recent call last):\n${line}\n`));
  return concludeOutOfMemory({
    exitCode: 1,
    killsInLimit: 0,
    killedByKernel: false,
    limit: { bytes: 'none', by: 'none', why: '' },
    reported: undefined,
    read: scanner.found()?.outOfMemory,
    suspected: scanner.suspected()?.outOfMemory,
    memoryWasShort,
  });
}

describe('what libraries say when memory is short', () => {
  it.each(messages)('$from: $text', (message) => {
    const { when, kind, askedBytes } = message;
    const short = concluded(message, true);
    expect(short?.kind ?? null).toBe(kind);
    if (short !== null) expect(short.askedBytes).toBe(askedBytes ?? 'unknown');
    expect(concluded(message, false)?.kind ?? null).toBe(when === 'always' ? kind : null);
  });

  it('calls memory short from nine tenths of a limit on', () => {
    expect(wasShort(900, 1000)).toBe(true);
    expect(wasShort(899, 1000)).toBe(false);
    expect(wasShort('unknown', 1000)).toBe(false);
    expect(wasShort(900, 'unknown')).toBe(false);
  });
});
