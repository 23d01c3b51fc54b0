// Every command of the README's table, through an installed `plimsoll`.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { layOutInput, readmeCommands } from './commands.mjs';
import { serveStory } from './serve-story.mjs';

/** @returns {Promise<string[]>} what went wrong, one line each */
export async function tryCommand(command, { folder, env, program }) {
  const cwd = join(folder, 'work');
  layOutInput(cwd, { program });
  const runTool = (args) => capture(command, args, { cwd, env });
  const wrong = [];
  for (const { args, expect, code = [0] } of readmeCommands(program)) {
    const done = await runTool(args);
    const ok = code.includes(done.code) && expect.test(done.output);
    process.stdout.write(`  ${ok ? 'ok    ' : 'FAILED'} plimsoll ${args.join(' ')}\n`);
    if (!ok) {
      wrong.push(`plimsoll ${args.join(' ')}: exit code ${done.code}: ${done.output.trim()}`);
    }
  }
  const served = await serveStory(command, { cwd, env, runTool });
  process.stdout.write(
    `  ${served === undefined ? 'ok    ' : 'FAILED'} plimsoll serve, submit, jobs\n`,
  );
  return served === undefined ? wrong : [...wrong, served];
}

/** @returns {Promise<{ code: number, stdout: string, output: string }>} */
export function capture(command, args, { cwd, env }) {
  return new Promise((resolve) => {
    const parts = { stdout: '', output: '' };
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      parts.stdout += chunk;
      parts.output += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk) => {
      parts.output += chunk;
    });
    child.on('error', (error) => resolve({ code: 127, stdout: '', output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, ...parts }));
  });
}
