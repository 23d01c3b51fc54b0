import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeptAnswers } from './kept-answers.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-kept-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const now = new Date('2026-11-15T12:00:00Z');
const keyOf = (number: number) => number.toString(16).padStart(64, '0');
const answers = () => join(folder, 'home', 'answers');

describe('KeptAnswers', () => {
  it('gives back what was written, in another process too', () => {
    new KeptAnswers(answers()).write(keyOf(1), { notes: ['ü'] }, now);
    expect(new KeptAnswers(answers()).read(keyOf(1))).toEqual({
      at: '2026-11-15T12:00:00.000Z',
      answer: { notes: ['ü'] },
    });
    expect(new KeptAnswers(answers()).read(keyOf(2))).toBeUndefined();
  });

  it('takes no notice of damaged files, and writes over them', () => {
    const kept = new KeptAnswers(answers());
    mkdirSync(answers(), { recursive: true });
    const path = join(answers(), `${keyOf(1)}.json`);
    const whole = JSON.stringify({ schema: 2, key: keyOf(1), at: now.toISOString(), answer: 1 });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.nat(whole.length - 1).map((length) => whole.slice(0, length)),
        ),
        (text) => {
          writeFileSync(path, text);
          expect(kept.read(keyOf(1))).toBeUndefined();
        },
      ),
    );
    for (const other of [{ schema: 1 }, { key: keyOf(2) }, { at: 5 }]) {
      writeFileSync(path, JSON.stringify({ ...JSON.parse(whole), ...other }));
      expect(kept.read(keyOf(1))).toBeUndefined();
    }
    kept.write(keyOf(1), 'again', now);
    expect(kept.read(keyOf(1))?.answer).toBe('again');
  });

  it('keeps no more than its number, those that were used last', () => {
    const kept = new KeptAnswers(answers());
    for (let number = 0; number < 256; number += 1) {
      kept.write(keyOf(number), number, now);
      const used = new Date(now.getTime() - 1000 * (1000 - number));
      utimesSync(join(answers(), `${keyOf(number)}.json`), used, used);
    }
    expect(kept.read(keyOf(0))?.answer).toBe(0);
    kept.write(keyOf(256), 256, now);
    expect(readdirSync(answers())).toHaveLength(256);
    expect(kept.read(keyOf(0))?.answer).toBe(0);
    expect(kept.read(keyOf(1))).toBeUndefined();
  });

  it('removes what a process left that died while it wrote', () => {
    const kept = new KeptAnswers(answers());
    kept.write(keyOf(1), 1, now);
    const part = join(answers(), `${keyOf(2)}.json.abc`);
    writeFileSync(part, '{');
    const fresh = join(answers(), `${keyOf(3)}.json.def`);
    writeFileSync(fresh, '{');
    const [long, short] = [new Date(now.getTime() - 7_200_000), now];
    utimesSync(part, long, long);
    utimesSync(fresh, short, short);
    kept.write(keyOf(4), 4, now);
    expect(readdirSync(answers()).toSorted()).toEqual([
      `${keyOf(1)}.json`,
      `${keyOf(3)}.json.def`,
      `${keyOf(4)}.json`,
    ]);
  });

  it('does without where nothing can be written', () => {
    writeFileSync(join(folder, 'home'), 'a file');
    const kept = new KeptAnswers(answers());
    kept.write(keyOf(1), 1, now);
    expect(kept.read(keyOf(1))).toBeUndefined();
  });
});
