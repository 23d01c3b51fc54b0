import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adaptable } from './adaptable.js';
import { yamlSettings } from './adapted-config.js';
import { otherFlags, scriptFlags } from './other-flags.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-script-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function written(text: string): readonly string[] {
  writeFileSync(join(folder, 'train.py'), text);
  return ['python', 'train.py'];
}

const argparse = `
parser.add_argument("--eval-batch-size", type=int, default=512)
parser.add_argument(
    "-b", "--batch-size", type=int, default=64,
    help="samples (of one card)",
)
parser.add_argument('--grad_accum', default=2, type=int)
`;

describe('options that a script declares', () => {
  it('are added where the command does not name them', () => {
    const command = written(argparse);
    expect(scriptFlags(command, folder)).toEqual({
      command: [...command, '--batch-size', '{batch_size}', '--grad_accum', '{accumulation}'],
      batchFlag: '--batch-size',
      batch: 64,
      accumulation: 2,
    });
    expect(scriptFlags([...command, '--batch-size=8'], folder)).toMatchObject({
      command: [...command, '--batch-size={batch_size}', '--grad_accum', '{accumulation}'],
      batch: 8,
    });
  });

  it('are those of click as well', () => {
    const command = written('@click.option("--batch-size", default=16, show_default=True)\n');
    expect(scriptFlags(command, folder)).toMatchObject({ batch: 16, accumulation: 1 });
  });

  it('are the names that nanoGPT sets, and its configurations after it', () => {
    const command = written(
      "gradient_accumulation_steps = 5 * 8 # for larger batches\nbatch_size = 12\nexec(open('configurator.py').read())\n",
    );
    const words = ['--batch_size={batch_size}', '--gradient_accumulation_steps={accumulation}'];
    expect(scriptFlags(command, folder)).toMatchObject({
      command: [...command, ...words],
      batch: 12,
      accumulation: 40,
    });
    writeFileSync(join(folder, 'small.py'), 'gradient_accumulation_steps = 1\nbatch_size = 64\n');
    expect(scriptFlags([...command, 'small.py'], folder)).toMatchObject({
      batch: 64,
      accumulation: 1,
    });
    expect(scriptFlags([...command, 'small.py', '--batch_size=8'], folder)).toMatchObject({
      command: [...command, 'small.py', ...words],
      batch: 8,
    });
  });

  it.each([
    ['p.add_argument("--batch-size", type=int, required=True)\n'],
    ['p.add_argument("--batch-size", default=BATCH)\n'],
    ['p.add_argument("--batch-size", default=2 * 32)\n'],
    ['p.add_argument("batch_size", default=8)\n'],
    ['p.add_argument("-b", default=8)\n'],
    ['batch_size = 8\n'],
  ])('are not seen in %j', (text) => {
    expect(scriptFlags(written(text), folder)).toBeUndefined();
  });

  it('do not count where a file that the command names sets the batch', () => {
    const command = [...written(argparse), '--config', 'run.yaml'];
    const text = 'batch_size: 32\n';
    const settings = yamlSettings(text);
    const files = settings === undefined ? [] : [{ file: 'run.yaml', text, ...settings }];
    const other = otherFlags(command, folder);
    expect(adaptable(command, files, other)).toMatchObject({ command, batchSize: 32 });
    expect(adaptable(command, [], other)).toMatchObject({ batchSize: 64, accumulation: 2 });
  });

  it('of any text make no trouble', () => {
    const piece = fc.oneof(
      fc.string({ maxLength: 30 }),
      fc.constantFrom('add_argument(', '"--batch-size", ', 'default=3', ')', '\n'),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const found = scriptFlags(written(pieces.join('')), folder);
        expect(found === undefined || found.batch > 0).toBe(true);
      }),
    );
  });
});
