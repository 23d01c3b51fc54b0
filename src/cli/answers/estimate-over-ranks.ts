import { loadSettings } from '../../config/load.js';
import { overRanks } from '../../estimate/over-ranks.js';
import type { Estimate, Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { openOutputFile } from '../../files/output-file.js';
import {
  cardOfEstimate,
  makeEstimate,
  type PreparedEstimate,
  prepareEstimate,
} from '../../plan/answers/answer-estimate.js';
import { renderOverRanksHtml } from '../../report/ranks/over-ranks-html.js';
import { overRanksText } from '../../report/ranks/over-ranks-text.js';
import type { OverRanks } from '../../report/ranks/over-ranks-words.js';
import type { CommandContext } from '../command-module.js';
import { printJson, textStyle } from '../io.js';
import { type OnOneCount, refuseCopy, refuseServing } from '../options/estimate-arguments.js';
import { workloadMachine } from '../options/workload-machine.js';
import { workloadRequest } from '../options/workload-options.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';
import { keptOrMade } from './kept-answer.js';

/** `plimsoll estimate MODEL --parallel fsdp2 --gpus 2..512`. */
export async function estimateOverRanks(
  model: string | undefined,
  counts: readonly number[],
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseServing(given);
  refuseCopy(given);
  if (given.savings === true) throw savingsOfMany();
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  // All of them before any is traced: what cannot be shared out evenly ends it at once.
  const prepared = new Map<number, PreparedEstimate>();
  for (const gpus of counts) {
    const request = workloadRequest(model, { ...given, gpus }, folder);
    prepared.set(gpus, await prepareEstimate(request, machine));
  }
  const [first] = prepared.values();
  const { parallel } = first?.workload ?? {};
  if (first === undefined || parallel === undefined) return 0;
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const made: Estimate[] = [];
  const estimateOf = async ({ parallel: on }: Workload): Promise<Estimate> => {
    const gpus = on?.gpus ?? 0;
    const request = prepared.get(gpus) ?? first;
    const onProgress = io.stderr.isTerminal
      ? (text: string, share?: number) => progress.show(`${gpus} GPUs: ${text}`, share)
      : undefined;
    const make = () => makeEstimate(request, { ...machine, signal: stop.signal, onProgress });
    // The same as the answer for this count alone: each of the two is kept for the other.
    const asked = {
      prepared: request,
      settings: ['estimate', false],
      version,
      place: machine,
      estimateIn: (found: Estimate) => found,
      make,
    };
    const found = await (given.cache === false ? make() : keptOrMade(asked));
    made.push(found);
    return found;
  };
  const points = await overRanks(counts, first.workload, estimateOf)
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (points === undefined) return stop.interruptedBy ?? 0;
  const found: OverRanks = {
    parallel: parallel.way,
    gpu: cardOfEstimate(first.gpu),
    overRanks: points,
    notes: sharedNotes(made),
  };
  page?.write(renderOverRanksHtml({ found, ...first, version }));
  if (given.json) printJson(io, { method: 'trace', ...found });
  else {
    io.stdout.write(`${overRanksText(found, io.stdout.columns(), textStyle(io))}\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return 0;
}

/** What holds for all counts. */
function sharedNotes(made: readonly Estimate[]): readonly string[] {
  const [first, ...others] = made;
  return (first?.notes ?? []).filter((note) => others.every(({ notes }) => notes.includes(note)));
}

function savingsOfMany(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--savings is for one number of GPUs.',
    next: 'Name one, such as --gpus 8, or leave --savings out.',
  });
}
