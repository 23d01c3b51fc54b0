// Which tests Stryker runs, and which mutants it tries: both for scripts/mutants.mjs, which names them
// in the environment.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

/** The seed of the samples: the same mutants are tried each time. */
export const seed = 37;

// oxlint-disable-next-line import/no-default-export -- vitest reads it
export default defineConfig({
  test: {
    include: (process.env.MUTANTS_TESTS ?? 'none').split(','),
    setupFiles: ['test/support/property-seed.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 20_000 } },
  },
});

/**
 * Tells a mutant from all others as long as its file does not change. `first` is the number of the first
 * line and column: results count from 1, what a checker is handed from 0.
 */
export function keyOf({ fileName, mutatorName, location, replacement }, first = 1) {
  const path = fileName.slice(fileName.lastIndexOf('/src/') + 1);
  const [from, to] = [location.start, location.end].map(
    ({ line, column }) => `${line - first + 1}:${column - first + 1}`,
  );
  return `${path} ${from}-${to} ${mutatorName} ${replacement}`;
}

export function isInSample(key, every) {
  const digest = createHash('sha256').update(`${seed} ${key}`).digest();
  return digest.readUInt32BE() % every === 0;
}

/**
 * To Stryker the mutants that are left out look as if they did not compile: its score leaves them out,
 * too.
 */
class Sample {
  #chosen;

  async init() {
    const { every, only } = JSON.parse(readFileSync(process.env.MUTANTS_CHOICE, 'utf8'));
    const keys = only && new Set(only);
    this.#chosen = (key) => keys?.has(key) ?? isInSample(key, every);
  }

  async check(mutants) {
    const leftOut = { status: 'compileError', reason: 'not in the sample' };
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        this.#chosen(keyOf(mutant, 0)) ? { status: 'passed' } : leftOut,
      ]),
    );
  }
}

export const strykerPlugins = [{ kind: 'Checker', name: 'sample', injectableClass: Sample }];
