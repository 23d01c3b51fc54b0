import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'web/src/**/*.test.ts'],
    setupFiles: ['test/support/property-seed.ts'],
    // Many tests wait for processes: even two cores do two files at a time.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 30_000,
    // What a test waits for comes when the machine gets to it.
    expect: { poll: { timeout: 20_000 } },
  },
});
