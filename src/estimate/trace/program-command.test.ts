import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { programCommand } from './run-python.js';

describe('programCommand', () => {
  it('takes a file or a module, and leaves its arguments alone', () => {
    expect(programCommand(['python', 'train.py', '-m', '--epochs', '3'])).toEqual({
      python: 'python',
      flags: [],
      program: ['train.py', '-m', '--epochs', '3'],
    });
    expect(programCommand(['/venv/bin/python3.12', '-m', 'pkg.train', 'x']).program).toEqual([
      '-m',
      'pkg.train',
      'x',
    ]);
  });

  it('keeps the options of Python itself', () => {
    const { flags, program } = programCommand(['python3', '-u', '-W', 'ignore', 'train.py', '-u']);
    expect(flags).toEqual(['-u', '-W', 'ignore']);
    expect(program).toEqual(['train.py', '-u']);
  });

  it('takes a launcher for the module that it runs', () => {
    expect(programCommand(['torchrun', '--nproc-per-node', '4', 'train.py', '--fast'])).toEqual({
      python: 'python',
      flags: [],
      program: ['-m', 'torch.distributed.run', '--nproc-per-node', '4', 'train.py', '--fast'],
    });
    expect(programCommand(['/venv/bin/accelerate', 'launch', 'train.py'])).toEqual({
      python: '/venv/bin/python',
      flags: [],
      program: ['-m', 'accelerate.commands.launch', 'train.py'],
    });
    expect(() => programCommand(['accelerate', 'config'])).toThrow(Failure);
  });

  it.each([
    [['node', 'train.js'], 'not-python'],
    [['python', '-c', 'print(1)'], 'no-program'],
    [['python', '-u'], 'no-program'],
    [['python', '-m'], 'no-program'],
    [[], 'not-python'],
  ])('refuses %j', (words, code) => {
    expect(() => programCommand(words)).toThrow(expect.objectContaining({ code }));
    expect(() => programCommand(words)).toThrow(Failure);
  });
});
