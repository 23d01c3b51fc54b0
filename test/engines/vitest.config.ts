import { defineConfig } from 'vitest/config';

/** Each file makes a cluster of its own; one at a time, as two cores are shared by all of its nodes. */
export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/engines/**/*.engines.ts'],
    maxWorkers: 1,
    fileParallelism: false,
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    expect: { poll: { timeout: 900_000 } },
  },
});
