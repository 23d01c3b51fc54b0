import { describe, expect, it } from 'vitest';
import { parsePlainYaml } from './deploy-files.js';

describe('parsePlainYaml', () => {
  it('reads what our files are made of', () => {
    const text = [
      '# a comment',
      'name: plimsoll',
      'list:',
      '  - one',
      '  - key: a',
      '    other: "b: c"',
      '    nested:',
      '      - [x, y]',
      'folded: >-',
      '  first',
      '  second',
      'empty:',
      "flow: { a: 1, b: 'two' }",
    ].join('\n');
    expect(parsePlainYaml(text)).toEqual({
      name: 'plimsoll',
      list: ['one', { key: 'a', other: 'b: c', nested: [['x', 'y']] }],
      folded: 'first second',
      empty: '',
      flow: { a: '1', b: 'two' },
    });
  });

  it.each([
    ['a key twice', 'a: 1\na: 2', /line 2: a stands twice/],
    ['a tab', 'a:\n\tb: 1', /line 2: a tab/],
    ['a line that belongs nowhere', 'a:\n    b: 1\n  c: 2', /line 3/],
    ['a value that needs quotes', 'a: b: c', /line 1: quotes are missing/],
    ['a quote that does not end', 'a: "b', /line 1/],
  ])('says where it is wrong: %s', (_, text, message) => {
    expect(() => parsePlainYaml(text)).toThrow(message);
  });
});
