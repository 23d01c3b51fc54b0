import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/run/running.js';
import { needsLinux } from '../../../test/support/needs.js';
import { readProcess, readProcesses } from '../processes/process-table.js';
import { startCanary } from './canary.js';

function children(): readonly number[] {
  return readProcesses('/proc').flatMap(({ pid, parent }) => (parent === process.pid ? pid : []));
}

describe('the canary', needsLinux, () => {
  function started() {
    const before = children();
    const canary = startCanary();
    onTestFinished(() => canary.release());
    return { canary, pid: children().find((pid) => !before.includes(pid)) ?? 0 };
  }

  it('hears what its group got, however late the kernel gets to it', async () => {
    const { canary, pid } = started();
    // As on a machine that gives it no time: the signal is sent, and it does not end yet.
    process.kill(pid, 'SIGSTOP');
    await until(() => (readProcess('/proc', pid)?.state === 'T' ? true : undefined));
    process.kill(pid, 'SIGTERM');
    const heard = canary.heard('SIGTERM');
    // For longer than it waits where there is nothing to hear.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    process.kill(pid, 'SIGCONT');
    expect(await heard).toBe(true);
  });

  it('does not hear what came to us alone', async () => {
    const { canary } = started();
    expect(await canary.heard('SIGTERM')).toBe(false);
  });
});
