import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** A folder of this run of vitest, for what several test files need. */
    readonly runFolder: string;
  }
}

let folder = '';

export function setup(project: TestProject): void {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-tests-'));
  project.provide('runFolder', folder);
  // Sources have changed: nothing of before may be used.
  project.onTestsRerun(() => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
  });
}

export function teardown(): void {
  rmSync(folder, { recursive: true, force: true });
}
