import { describe, expect, it } from 'vitest';
import { wrapHelp } from './program.js';

describe('wrapHelp', () => {
  it('wraps paragraphs, and leaves options and examples as they are', () => {
    const long = '  plimsoll run --batch-size 32 -- python train.py';
    const help = `Usage: plimsoll run\n\nOptions:\n  --json  print\n\nIt runs a\nprogram, and starts it again.\n\nExamples:\n${long}\n`;
    expect(wrapHelp(help, 20)).toBe(
      `Usage: plimsoll run\n\nOptions:\n  --json  print\n\nIt runs a program,\nand starts it again.\n\nExamples:\n${long}\n`,
    );
  });
});
