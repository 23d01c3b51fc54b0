import { describe, expect, it } from 'vitest';
import { changes, openScreen } from './terminal.js';

function fakeTerminal(rows = 24) {
  const written: string[] = [];
  const raw: boolean[] = [];
  return {
    written,
    raw,
    write: (text: string) => written.push(text),
    size: () => ({ columns: 80, rows }),
    setRaw: (on: boolean) => raw.push(on),
  };
}

describe('changes', () => {
  it('writes only the lines that differ', () => {
    expect(changes(['a', 'b', 'c'], ['a', 'B', 'c'])).toBe('\u001B[2;1H\u001B[0m\u001B[KB');
  });

  it('wipes lines that are no longer there', () => {
    expect(changes(['a', 'b'], ['a'])).toBe('\u001B[2;1H\u001B[0m\u001B[K');
  });

  it('is silent when nothing changed', () => {
    expect(changes(['a', ''], ['a', ''])).toBe('');
  });
});

describe('openScreen', () => {
  it('gives the terminal back once, however often it is left', () => {
    const terminal = fakeTerminal();
    const screen = openScreen(terminal);
    screen.leave();
    expect(terminal.written).toEqual([]);
    screen.enter();
    screen.leave();
    screen.leave();
    expect(terminal.raw).toEqual([true, false]);
    expect(terminal.written).toHaveLength(2);
    expect(terminal.written[1]).toContain('\u001B[?25h');
    expect(terminal.written[1]).toContain('\u001B[?1049l');
  });

  it('draws nothing while it is left, and everything after it is entered again', () => {
    const terminal = fakeTerminal();
    const screen = openScreen(terminal);
    screen.enter();
    screen.draw(['one']);
    screen.leave();
    const before = terminal.written.length;
    screen.draw(['one']);
    expect(terminal.written).toHaveLength(before);
    screen.enter();
    screen.draw(['one']);
    expect(terminal.written.at(-1)).toContain('one');
  });

  it('draws all lines again after the terminal forgot them', () => {
    const terminal = fakeTerminal();
    const screen = openScreen(terminal);
    screen.enter();
    screen.draw(['one', 'two']);
    screen.forget();
    screen.draw(['one', 'two']);
    expect(terminal.written.at(-1)).toMatch(/one.*two/s);
  });

  it('never draws below the last row', () => {
    const terminal = fakeTerminal(2);
    const screen = openScreen(terminal);
    screen.enter();
    screen.draw(['one', 'two', 'three']);
    expect(terminal.written.at(-1)).not.toContain('three');
  });
});
