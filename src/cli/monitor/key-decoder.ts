import type { MonitorInput } from '../../report/monitor/press.js';

const escape = '\u001B';

const named: Readonly<Record<string, string>> = {
  '[A': 'up',
  '[B': 'down',
  '[C': 'right',
  '[D': 'left',
  '[H': 'home',
  '[F': 'end',
  '[1~': 'home',
  '[7~': 'home',
  '[4~': 'end',
  '[8~': 'end',
  '[5~': 'page-up',
  '[6~': 'page-down',
  '[11~': 'f1',
  OA: 'up',
  OB: 'down',
  OC: 'right',
  OD: 'left',
  OH: 'home',
  OF: 'end',
  OP: 'f1',
};

const single: Readonly<Record<string, string>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  ' ': 'space',
  '\u007F': 'backspace',
  '\b': 'backspace',
};

/** A sequence that has not ended after this many characters is none. */
const longestSequence = 32;

/**
 * Turns what a terminal sends into keys and clicks. A sequence may come in pieces; Esc alone is told
 * by `flush`, once nothing has followed it.
 */
export class KeyDecoder {
  #pending = '';

  get isPending(): boolean {
    return this.#pending !== '';
  }

  feed(text: string): MonitorInput[] {
    const inputs: MonitorInput[] = [];
    let rest = this.#pending + text;
    this.#pending = '';
    while (rest !== '') {
      if (rest.startsWith(escape)) {
        const match = /^(\[[\d;<?]*[A-Za-z~]|O[A-Za-z])/.exec(rest.slice(1));
        if (match) {
          inputs.push(...sequence(match[0]));
          rest = rest.slice(1 + match[0].length);
          continue;
        }
        if (/^(\[[\d;<?]*|O)?$/.test(rest.slice(1)) && rest.length <= longestSequence) {
          this.#pending = rest;
          break;
        }
        inputs.push({ kind: 'key', key: 'escape' });
        rest = rest.slice(1);
        continue;
      }
      const character = String.fromCodePoint(rest.codePointAt(0) ?? 0);
      inputs.push({ kind: 'key', key: keyOf(character) });
      rest = rest.slice(character.length);
    }
    return inputs;
  }

  /** Nothing more came: what is pending is the key Esc, or the beginning of nothing. */
  flush(): MonitorInput[] {
    const isEscape = this.#pending === escape;
    this.#pending = '';
    return isEscape ? [{ kind: 'key', key: 'escape' }] : [];
  }
}

function keyOf(character: string): string {
  const name = single[character];
  if (name !== undefined) return name;
  const code = character.codePointAt(0) ?? 0;
  return code < 27 ? `ctrl-${String.fromCodePoint(code + 96)}` : character;
}

function sequence(text: string): MonitorInput[] {
  const name = named[text];
  if (name !== undefined) return [{ kind: 'key', key: name }];
  const mouse = /^\[<(\d{1,3});(\d{1,5});(\d{1,5})M$/.exec(text);
  if (mouse === null) return [];
  const [button, column, row] = mouse.slice(1).map(Number);
  const at = { column: (column ?? 1) - 1, row: (row ?? 1) - 1 };
  if (button === 0) return [{ kind: 'click', ...at }];
  if (button === 64) return [{ kind: 'wheel-up', ...at }];
  return button === 65 ? [{ kind: 'wheel-down', ...at }] : [];
}
