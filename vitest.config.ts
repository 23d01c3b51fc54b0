import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { viteSnapshotPage } from './scripts/snapshot-page.mjs';

export default defineConfig({
  plugins: [viteSnapshotPage()],
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'web/{src,snapshot}/**/*.test.ts'],
    setupFiles: ['test/support/property-seed.ts'],
    // Many tests wait for processes: even two cores do two files at a time.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // What a test waits for comes when the machine gets to it. These end a test that hangs, on a
    // machine that is busy with other work on every core, too.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
  },
});
