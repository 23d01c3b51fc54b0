import { loadSettings } from '../../config/load.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import { openOutputFile } from '../../files/output-file.js';
import { cardOfEstimate } from '../../plan/answers/answer-estimate.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import { renderEstimateHtml } from '../../report/estimate-html.js';
import { estimateText } from '../../report/text/estimate-text.js';
import type { CommandContext } from '../command-module.js';
import { printJson, textStyle } from '../io.js';
import type { OnOneCount } from '../options/estimate-arguments.js';
import { refuseForProgram } from '../options/program-options.js';
import { workloadMachine } from '../options/workload-machine.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';

/** What a program takes beside its own arguments. */
const taken = new Set([
  'gpu',
  'gpus',
  'cwdCopy',
  'python',
  'cache',
  'config',
  'html',
  'json',
  'verbose',
]);

/** `plimsoll estimate -- python train.py`. */
export async function estimateOfProgram(
  command: readonly string[],
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseForProgram(given, taken);
  programCommand(command);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const { gpu, notes } = await chosenGpu(given.gpu, machine);
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const shown = io.stderr.isTerminal && given.verbose !== true;
  if (shown) progress.show('Starting the program without a GPU');
  const found = await estimateProgram(
    { command, gpu, cards: given.gpus, inCopy: given.cwdCopy },
    {
      ...machine,
      signal: stop.signal,
      onProgress: shown ? (text: string, share?: number) => progress.show(text, share) : undefined,
      onOutput: given.verbose === true ? (text) => io.stderr.write(text) : undefined,
    },
  )
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  const answer = { ...found, gpu: cardOfEstimate(gpu), notes: [...notes, ...found.notes] };
  page?.write(renderEstimateHtml({ estimate: answer, program: command, gpu, version }));
  if (given.json) printJson(io, answer);
  else {
    const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${estimateText(answer, text)}\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return 0;
}
