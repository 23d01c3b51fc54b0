import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { viteSnapshotPage } from './scripts/snapshot-page.mjs';
import { restTag } from './scripts/test-counts.mjs';

/** The order of files and tests; `npm test` prints the one that it drew. */
const seed = Number(process.env['PLIMSOLL_TEST_SEED'] ?? Date.now());

/** A week of readings is also about what the process holds, which it shares with none. */
const week = 'src/watch/**/week.test.ts';

export default defineConfig({
  plugins: [viteSnapshotPage()],
  test: {
    tags: [{ name: restTag, description: 'runs in `npm run test:all`, not in `npm test`' }],
    sequence: { shuffle: true, seed },
    setupFiles: ['test/support/property-seed.ts'],
    // Many tests wait for processes: even two cores do three files at a time.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    // What a test waits for comes when the machine gets to it. These end a test that hangs, on a
    // machine that is busy with other work on every core, too.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    globalSetup: ['test/support/run-folder.ts'],
    projects: [
      { extends: true, test: { name: 'product', include: ['test/**/*.test.ts', week] } },
      // One process for many files: starting it, and loading the same modules, takes longer than most of
      // these tests.
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['src/**/*.test.ts', 'web/{src,snapshot,calculator}/**/*.test.ts'],
          exclude: [week],
          isolate: false,
        },
      },
    ],
  },
});
