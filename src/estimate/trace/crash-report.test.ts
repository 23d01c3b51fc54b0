import { describe, expect, it } from 'vitest';
import { crashLine, signalOf, signalWords } from './crash-report.js';

const report = `Fatal Python error: Aborted

Thread 0x00007f10 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "loader.py", line 3 in waits

Current thread 0x00007f11 (most recent call first):
  File "/srv/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 824 in _engine
  File "/opt/plimsoll/python/plimsoll_trace/run.py", line 200 in backward
  File "<frozen runpy>", line 88 in _run_code
  File "train loop.py", line 41 in step
  File "train loop.py", line 60 in <module>

Extension modules: numpy._core, torch._C (total: 26)
`;

describe('crashLine', () => {
  it('is the innermost line of the program in the thread that crashed', () => {
    expect(crashLine(report, '/opt/plimsoll/python')).toBe('train loop.py:41');
  });

  it('is that of another thread where this one runs none of the program, and else unknown', () => {
    const others = report.replaceAll('train loop.py', '/usr/lib/python3.11/runpy.py');
    expect(crashLine(others, '/opt/plimsoll/python')).toBe('loader.py:3');
    expect(crashLine('', '/opt')).toBeUndefined();
    expect(crashLine('  File "', '/opt')).toBeUndefined();
  });
});

describe('signalOf', () => {
  it.each([
    [{ code: null, signal: 'SIGABRT' as const }, 'SIGABRT'],
    [{ code: 139, signal: null }, 'SIGSEGV'],
    [{ code: 1, signal: null }, undefined],
    [{ code: 255, signal: null }, undefined],
  ])('%j is %s', (end, signal) => {
    expect(signalOf(end)).toBe(signal);
  });
});

describe('signalWords', () => {
  it('does not blame others for a fault of the process', () => {
    const { how, next } = signalWords('SIGABRT', 'train.py:7');
    expect(how).toBe('crashed by SIGABRT at train.py:7 and');
    expect(next).toContain('Run it in Python without plimsoll.');
  });

  it.each([
    ['SIGKILL', 'memory runs out', 'dmesg'],
    ['SIGTERM', 'another process sent', 'again'],
    ['SIGXCPU', 'ulimit -t', 'Raise'],
  ])('%s: says who may have sent it, and what to do', (signal, who, step) => {
    const { how, next } = signalWords(signal, undefined);
    expect(how).toContain(signal);
    expect(how).toContain(who);
    expect(next).toContain(step);
  });
});
