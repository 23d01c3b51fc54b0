import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { findModel, type NamePlace } from '../../model/names/find-model.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import { answerServing } from '../../plan/answers/serving/answer-serving.js';
import { isModelName } from '../../plan/answers/source-of.js';
import { estimateText } from '../../report/text/estimate-text.js';
import { serveText } from '../../report/text/serve-room-text.js';
import type { CommandContext } from '../command-module.js';
import { printJson, textStyle } from '../io.js';
import { type OnOneCount, refuseCopy } from '../options/estimate-arguments.js';
import { workloadMachine } from '../options/workload-machine.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';

/** Where the config of a model lies that was named by its path or its name. */
async function pathOfModel(
  model: string,
  place: NamePlace & { readonly folder: string },
): Promise<string> {
  const path = resolve(place.folder, model);
  if (!isModelName(model) || existsSync(path)) return path;
  const { source } = await findModel(model, place);
  return source.kind === 'path' ? source.path : path;
}

/** `plimsoll estimate MODEL --mode generate`, and `--mode serve`. */
export async function estimateServing(
  model: string | undefined,
  given: OnOneCount,
  { io }: CommandContext,
): Promise<number> {
  const { python, hub, config, cache: _, json = false, verbose: _shown, ...asked } = given;
  refuseCopy(given);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: config });
  const machine = workloadMachine(settings, io, { python, hub });
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  const path =
    model === undefined ? undefined : await pathOfModel(model, { hub, folder, environment });
  const request = { ...asked, model: path };
  const found = await answerServing(request, { ...machine, signal: stop.signal, onProgress })
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  if (json) {
    printJson(io, found);
    return 0;
  }
  const { gpu } = await chosenGpu(given.gpu, machine);
  const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
  const served = found.serve === undefined ? '' : `${serveText(found.serve)}\n\n`;
  io.stdout.write(`${served}${estimateText(found, text)}\n`);
  return 0;
}
