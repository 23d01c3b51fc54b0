import type { Estimate } from '../estimate/contract.js';
import { type EstimateMachine, type EstimateRequest, estimate } from '../estimate/estimate.js';
import { findSavings } from '../estimate/savings.js';
import { openOutputFile } from '../files/output-file.js';
import { renderEstimateHtml } from '../report/estimate-html.js';
import { estimateText } from '../report/text/estimate-text.js';
import type { CommandContext, CommandModule } from './command-module.js';
import { type CliIo, printJson, textStyle } from './io.js';
import { openProgress } from './progress.js';
import { stopOnSignals } from './stop.js';
import {
  addTypeOptions,
  addWorkloadOptions,
  closedWorkload,
  type WorkloadArguments,
  wantedWorkload,
} from './workload-options.js';

interface EstimateArguments extends WorkloadArguments {
  readonly savings?: boolean;
  readonly html?: string;
  readonly json?: boolean;
}

export const estimateCommand: CommandModule = {
  define(command, context) {
    addTypeOptions(addWorkloadOptions(command, { precision: 'fp32', optimizer: 'adamw' }))
      .option('--savings', 'trace what other settings would save, too (some seconds each)')
      .option('--html <file>', 'write the estimate as one HTML page')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Without Python, torch or transformers a known family of models is estimated by formula.

Examples:
  plimsoll estimate gpt2/config.json --batch 8 --seq 1024 --precision bf16
  plimsoll estimate llama/ --mode infer --batch 1 --seq 4096 --quantization int4 --gpu 4090
  plimsoll estimate torchvision:resnet50 --batch 32 --image 224 --savings --html resnet.html
  plimsoll estimate --script train.py --arg layers=12 --gpu a100-80gb --json`,
      )
      .action(
        context.action((model: string | undefined, given: EstimateArguments) =>
          answerEstimate(model, given, context),
        ),
      );
  },
};

async function answerEstimate(
  model: string | undefined,
  given: EstimateArguments,
  { io, version }: CommandContext,
): Promise<number> {
  const { notes, python, ...wanted } = await wantedWorkload(model, given, io);
  const request = { ...wanted, workload: closedWorkload(wanted.workload, wanted.source) };
  const page = given.html === undefined ? undefined : openOutputFile(given.html, io.folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openProgress(io.stderr);
  const { folder, environment } = io;
  const onProgress = io.stderr.isTerminal ? (text: string) => progress.show(text) : undefined;
  const machine = { python, environment, folder, signal: stop.signal, onProgress };
  const found = await estimateAndSavings(request, machine, given.savings === true)
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  const answer = { ...found, notes: [...notes, ...found.notes] };
  page?.write(renderEstimateHtml({ estimate: answer, ...request, version }));
  print(answer, request, given, io);
  return 0;
}

/** What the formula knows of savings costs nothing; traces take their time. */
async function estimateAndSavings(
  request: EstimateRequest,
  machine: EstimateMachine,
  traceSavings: boolean,
): Promise<Estimate> {
  const found = await estimate(request, machine);
  const basis = traceSavings && found.method === 'trace' ? 'trace' : 'formula';
  const savings = await findSavings(request, found, machine, basis);
  return savings.length === 0 ? found : { ...found, savings };
}

function print(
  answer: Estimate,
  { gpu }: EstimateRequest,
  { json, html }: EstimateArguments,
  io: CliIo,
): void {
  if (json) {
    printJson(io, answer);
    return;
  }
  const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
  io.stdout.write(`${estimateText(answer, text)}\n`);
  if (html !== undefined) io.stdout.write(`Written to ${html}.\n`);
}
