import { loadSettings } from '../../config/load.js';
import type { EstimateRequest } from '../../estimate/estimate.js';
import { openOutputFile } from '../../files/output-file.js';
import {
  type EstimateDocument,
  makeEstimate,
  prepareEstimate,
} from '../../plan/answers/answer-estimate.js';
import { isServing } from '../../plan/answers/serving/serving-request.js';
import { renderEstimateHtml } from '../../report/estimate-html.js';
import { estimateText } from '../../report/text/estimate-text.js';
import { shellWords } from '../../units/shell-words.js';
import { estimateOverRanks } from '../answers/estimate-over-ranks.js';
import { keptOrMade } from '../answers/kept-answer.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { countArgument } from '../options/arguments.js';
import {
  addServingOptions,
  type EstimateArguments,
  estimateModes,
  type OnOneCount,
  onOneCount,
  refuseCopy,
  refuseServing,
} from '../options/estimate-arguments.js';
import { addParallelOptions } from '../options/parallel-options.js';
import { workloadMachine } from '../options/workload-machine.js';
import {
  addMachineOptions,
  addModelArgument,
  addTypeOptions,
  addWorkloadOptions,
  workloadRequest,
} from '../options/workload-options.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';
import { estimateOfProgram } from './estimate-program.js';
import { estimateServing } from './estimate-serving.js';

export const estimateCommand: CommandModule = {
  define(command, context) {
    const unset = { precision: 'fp32', optimizer: 'adamw' };
    const withWorkload = addWorkloadOptions(addModelArgument(command), unset, estimateModes);
    addParallelOptions(addServingOptions(addTypeOptions(addMachineOptions(withWorkload))))
      .option(
        '--accumulation <n>',
        'batches whose gradients are added up before a step (1)',
        countArgument('--accumulation'),
      )
      .option('--savings', 'trace what other settings would save, too (some seconds each)')
      .option('--cwd-copy', 'with a program: run it in a copy of its folder')
      .option('--verbose', 'with a program: show what it prints, on stderr')
      .option('--html <file>', 'write the estimate as one HTML page')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Without Python, torch or transformers, known model families are estimated by formula. The exit code is
0 whether or not the model fits the GPU; the exit code of "plimsoll plan" says whether it fits.

A program after -- runs unmodified on a simulated GPU until each of its phases was seen. The files it
saves are discarded. Its other side effects are real: network requests, for example.

Examples:
  plimsoll estimate -- python train.py --epochs 3
  plimsoll estimate --gpu a100-80gb --cwd-copy -- torchrun --nproc-per-node 4 train.py
  plimsoll estimate llama-3-8b --batch 1 --seq 2048 --precision bf16 --lora 16 --gpu 4090
  plimsoll estimate --parameters 22b --batch 1 --seq 2048
  plimsoll estimate gpt2/config.json --batch 8 --seq 1024 --precision bf16
  plimsoll estimate llama/ --mode infer --batch 1 --seq 4096 --quantization int4 --gpu 4090
  plimsoll estimate llama/ --mode generate --batch 8 --prompt 512 --new 256 --beams 4
  plimsoll estimate llama/ --mode serve --engine vllm --max-model-len 8192 --gpu h100
  plimsoll estimate llama-3-8b --batch 1 --seq 4096 --gpus 8 --parallel fsdp2 --gather-precision bf16
  plimsoll estimate llama-3-8b --batch 1 --seq 4096 --gpus 2..512 --parallel fsdp2 --html ranks.html
  plimsoll estimate torchvision:resnet50 --batch 32 --image 224 --savings --html resnet.html
  plimsoll estimate --script train.py --arg layers=12 --gpu a100-80gb --json`,
      )
      .action(
        context.action((words: readonly string[], given: EstimateArguments) => {
          if (words.length > 1) return estimateOfProgram(words, onOneCount(given), context);
          const [model] = words;
          if (isServing({ mode: given.mode }))
            return estimateServing(model, onOneCount(given), context);
          const { gpus, ...other } = given;
          return typeof gpus === 'object'
            ? estimateOverRanks(model, gpus, other, context)
            : estimate(model, { ...other, gpus }, context);
        }),
      );
  },
};

async function estimate(
  model: string | undefined,
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseServing(given);
  refuseCopy(given);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const request = await prepareEstimate(workloadRequest(model, given, folder), machine);
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  const make = () =>
    makeEstimate(request, { ...machine, signal: stop.signal, onProgress }, given.savings);
  const asked = {
    prepared: request,
    settings: ['estimate', given.savings ?? false],
    version,
    place: machine,
    estimateIn: (found: EstimateDocument) => found,
    make,
  };
  const answer = await (given.cache === false ? make() : keptOrMade(asked))
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (answer === undefined) return stop.interruptedBy ?? 0;
  page?.write(renderEstimateHtml({ estimate: answer, ...request, version }));
  print(answer, request, given, io, wholeCommand(model, given, request));
  return 0;
}

function print(
  answer: EstimateDocument,
  { gpu, workload }: EstimateRequest,
  { json, html }: OnOneCount,
  io: CliIo,
  command: string | undefined,
): void {
  if (json) {
    printJson(io, answer);
    return;
  }
  // Of a training `plan` tells it, with the memory of the whole step.
  const recommended = workload.mode === 'infer' ? answer.recommendedQuantization : undefined;
  const text = { gpu, columns: io.stdout.columns(), style: textStyle(io), recommended, command };
  io.stdout.write(`${estimateText(answer, text)}\n`);
  if (html !== undefined) io.stdout.write(`Written to ${html}.\n`);
}

/** Options that do not change what is estimated. */
const beside: ReadonlySet<string> = new Set(['json', 'html', 'verbose', 'cache']);

/**
 * The command with what was assumed, so that it can be typed again and changed; undefined where
 * nothing was assumed.
 */
function wholeCommand(
  model: string | undefined,
  given: OnOneCount,
  { source, workload, gpu }: EstimateRequest,
): string | undefined {
  if (source.kind === 'script') return undefined;
  const { batch, sequence, image, precision, optimizer, mode } = workload;
  const all = {
    batch,
    seq: sequence,
    image,
    precision,
    optimizer: mode === 'train' ? optimizer : undefined,
    gpu: gpu.aliases[0] ?? gpu.name,
  };
  const stated: Readonly<Record<string, unknown>> = { ...given };
  const assumed = Object.entries(all).filter(([name]) => stated[name] === undefined);
  if (assumed.every(([, value]) => value === undefined)) return undefined;
  const words = [...Object.entries(stated), ...assumed].flatMap(([name, value]) =>
    beside.has(name) ? [] : optionWords(name, value),
  );
  return shellWords(['plimsoll', 'estimate', ...(model === undefined ? [] : [model]), ...words]);
}

function optionWords(name: string, value: unknown): readonly string[] {
  const option = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap((one) => optionWords(name, one));
  if (typeof value === 'boolean') return [value ? `--${option}` : `--no-${option}`];
  return [`--${option}`, String(value)];
}
