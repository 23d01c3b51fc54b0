import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { outputOf, printJson } from './io.js';
import { openProgress } from './screen/progress.js';

class FakeStream extends EventEmitter {
  readonly written: string[] = [];
  readonly isTTY: boolean;
  readonly columns = 20;
  writableNeedDrain = false;

  constructor(isTTY = false) {
    super();
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.written.push(text);
  }
}

const errorWith = (code: string) => Object.assign(new Error(code), { code });

describe('outputOf', () => {
  it('falls silent, without an error, when its reader left', () => {
    const stream = new FakeStream();
    const output = outputOf(stream, {});
    output.write('a');
    stream.emit('error', errorWith('EPIPE'));
    output.write('b');
    expect(stream.written).toEqual(['a']);
    expect(output.closed.aborted).toBe(true);
    expect(output.failure).toBeUndefined();
  });

  it('keeps an error that lost the answer', () => {
    const stream = new FakeStream();
    const output = outputOf(stream, {});
    stream.emit('error', errorWith('ENOSPC'));
    expect(output.closed.aborted).toBe(true);
    expect(output.failure?.message).toBe('ENOSPC');
  });

  it('waits for a slow reader, and for none that left or is not wanted any more', async () => {
    const stream = new FakeStream();
    const output = outputOf(stream, {});
    const stop = new AbortController();
    await output.drained(stop.signal);
    stream.writableNeedDrain = true;
    const order: string[] = [];
    const waiting = output.drained(stop.signal).then(() => order.push('drained'));
    await Promise.resolve();
    order.push('drains');
    stream.emit('drain');
    await waiting;
    expect(order).toEqual(['drains', 'drained']);
    const stopped = output.drained(stop.signal);
    stop.abort();
    await stopped;
    const left = output.drained(new AbortController().signal);
    stream.emit('error', errorWith('EPIPE'));
    await left;
    expect(stream.listenerCount('drain')).toBe(0);
  });

  it('has colours only for a person who wants them', () => {
    expect(outputOf(new FakeStream(true), {}).colour).toBe(true);
    expect(outputOf(new FakeStream(true), { NO_COLOR: '1' }).colour).toBe(false);
    expect(outputOf(new FakeStream(true), { TERM: 'dumb' }).isTerminal).toBe(false);
    expect(outputOf(new FakeStream(false), {}).colour).toBe(false);
  });
});

describe('openProgress', () => {
  it('redraws one line on a terminal, cut to its width, under lines that stay', () => {
    const stream = new FakeStream(true);
    const progress = openProgress(outputOf(stream, {}));
    progress.show('1 s of 60 s, and a long text behind it');
    progress.line('an alert');
    progress.show('2 s');
    progress.end();
    expect(stream.written).toEqual([
      '\r1 s of 60 s, and a~\u001B[K',
      '\r\u001B[K',
      'an alert\n',
      '\r2 s\u001B[K',
      '\r\u001B[K',
    ]);
  });

  it('shows only the lines that stay where there is no terminal', () => {
    const stream = new FakeStream(false);
    const progress = openProgress(outputOf(stream, {}));
    progress.show('1 s');
    progress.line('an alert');
    progress.end();
    expect(stream.written).toEqual(['an alert\n']);
  });
});

describe('printJson', () => {
  it('writes nothing that a terminal would act on, and the same document', () => {
    const stream = new FakeStream();
    const output = outputOf(stream, {});
    const document = { evil: '\u001B[2J\u007F\u009B31m\u202E\u{E0041}\u2028 \u00E9\u{1F600}' };
    printJson({ environment: {}, folder: '', stdout: output, stderr: output }, document);
    const text = stream.written.join('');
    expect(JSON.parse(text)).toEqual({ schema: 1, ...document });
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\u2028]/u);
    expect(text).toContain('\u00E9\u{1F600}');
  });
});
