import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'web/src/**/*.test.ts'],
    setupFiles: ['test/support/property-seed.ts'],
    testTimeout: 30_000,
    // What a test waits for comes when the machine gets to it.
    expect: { poll: { timeout: 20_000 } },
  },
});
