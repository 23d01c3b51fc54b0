import { resolve } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { loadSettings } from '../../config/load.js';
import { openDevices } from '../../config/open-devices.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { optimizers, precisions, quantizationPresets } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { answerEstimate } from '../../plan/answers/answer-estimate.js';
import { answerPlan } from '../../plan/answers/answer-plan.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { verdictOf } from '../../report/estimate-words.js';
import { snapshotFindings } from '../../report/findings.js';
import { createScanner } from '../../run/recognise/scanner.js';
import { outOfMemoryWords } from '../../run/words.js';
import { analyseSnapshot } from '../../snapshot/analyse.js';
import { snapshotDocument } from '../../snapshot/document.js';
import { readSnapshot } from '../../snapshot/read-snapshot.js';
import { formatBytes, parseBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import { workloadMachine } from '../options/workload-options.js';

interface McpArguments {
  readonly allowPrograms?: boolean;
  readonly config?: string;
  readonly json?: boolean;
}

/** A server of the Model Context Protocol on stdin and stdout. */
export const mcpCommand: CommandModule = {
  define(command, context) {
    command
      .option('--allow-programs', 'also estimate programs, which runs them on a simulated GPU')
      .option('--config <file>', 'configuration file (plimsoll.config.json)')
      .option('--json', 'print the tools as one JSON document on stdout, and end')
      .addHelpText(
        'after',
        `
An assistant starts this command and speaks the Model Context Protocol with it, on stdin and stdout.
All tools read only, unless --allow-programs is given.

Examples:
  plimsoll mcp
  claude mcp add plimsoll -- plimsoll mcp
  plimsoll mcp --json | jq '.tools[].name'`,
      )
      .action(context.action((given: McpArguments) => serve(given, context)));
  },
};

async function serve(given: McpArguments, { io, version }: CommandContext): Promise<number> {
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, {});
  const tools = toolsOf({ io, machine, settings }, given.allowPrograms ?? false);
  if (given.json) {
    const listed = tools.map(({ name, description, reads }) => ({
      name,
      description,
      readOnly: reads,
    }));
    printJson(io, { tools: listed });
    return 0;
  }
  const server = new McpServer({ name: 'plimsoll', version });
  for (const { name, description, input, reads, answer } of tools) {
    server.registerTool(
      name,
      {
        description,
        inputSchema: input,
        annotations: { readOnlyHint: reads, openWorldHint: false },
      },
      async (asked: unknown) => {
        try {
          return content(await answer(z.object(input).parse(asked)));
        } catch (error) {
          if (!(error instanceof Failure)) throw error;
          const { code, fact, next } = error;
          return { ...content({ error: { code, fact, next } }), isError: true };
        }
      },
    );
  }
  const transport = new StdioServerTransport();
  const ended = new Promise<void>((done) => {
    server.server.onclose = () => done();
    process.stdin.once('end', () => done());
  });
  await server.connect(transport);
  await ended;
  await server.close();
  return 0;
}

function content(answer: unknown) {
  return { content: [{ type: 'text' as const, text: JSON.stringify(answer, undefined, 2) }] };
}

interface Place {
  readonly io: CliIo;
  readonly machine: ReturnType<typeof workloadMachine>;
  readonly settings: Awaited<ReturnType<typeof loadSettings>>;
}

interface Tool<Input extends z.ZodRawShape = z.ZodRawShape> {
  readonly name: string;
  readonly description: string;
  readonly input: Input;
  /** Changes and runs nothing. */
  readonly reads: boolean;
  readonly answer: (asked: z.infer<z.ZodObject<Input>>) => Promise<unknown>;
}

/** Keeps the types of a tool's input for its answer, and drops them for the list. */
function tool<Input extends z.ZodRawShape>(one: Tool<Input>): Tool {
  return { ...one, answer: (asked) => one.answer(z.object(one.input).parse(asked)) };
}

const workload = {
  model: z.string().describe('a name such as llama-3-8b, or the path of a config.json or folder'),
  mode: z.enum(['train', 'infer']).optional(),
  batch: z.int().positive().optional(),
  seq: z.int().positive().optional().describe('tokens of a sequence'),
  image: z.int().positive().optional().describe("pixels of an image's edge"),
  precision: z.enum(precisions).optional(),
  optimizer: z.enum(optimizers).optional(),
  checkpointing: z.boolean().optional(),
  lora: z.int().positive().optional().describe('rank of LoRA adapters'),
  quantization: z.enum(quantizationPresets).optional(),
  gpu: z.string().optional().describe('a card such as h100 or 4090'),
  method: z.enum(['auto', 'trace', 'formula']).optional(),
};

function toolsOf({ io, machine, settings }: Place, allowPrograms: boolean): readonly Tool[] {
  const fromFolder = (asked: WorkloadRequest): WorkloadRequest => {
    const { model } = asked;
    const isPath = model !== undefined && /[/\\]|\.(?:json|safetensors|gguf)$/.test(model);
    // A name with an organization has a slash as well: what is not there stays a name.
    return isPath && model.startsWith('.') ? { ...asked, model: resolve(io.folder, model) } : asked;
  };
  const reading = [
    tool({
      name: 'estimate',
      description:
        'The GPU memory that training or inference of a model needs, with its interval, its parts and whether a card has it. No GPU is needed.',
      input: workload,
      reads: true,
      answer: async (asked) => {
        const found = await answerEstimate(fromFolder(asked), machine);
        const { gpu } = found;
        return { verdict: verdictOf(found, gpu).sentence, ...found };
      },
    }),
    tool({
      name: 'plan',
      description:
        'The fastest settings with which a model fits into memory, and the alternatives.',
      input: { ...workload, memory: z.string().describe('of the device, such as 24GiB') },
      reads: true,
      answer: ({ memory, ...asked }) =>
        answerPlan({ ...fromFolder(asked), memoryBytes: parseBytes(memory) }, machine),
    }),
    tool({
      name: 'explain_out_of_memory',
      description:
        'The cause and the figures of an out-of-memory error in the output of a program.',
      input: { log: z.string().max(4_000_000).describe('the output, or its end') },
      reads: true,
      answer: async ({ log }) => explained(log),
    }),
    tool({
      name: 'read_snapshot',
      description:
        'A PyTorch memory snapshot: its findings in words, and the largest holders. The pickle is never executed.',
      input: { path: z.string(), top: z.int().positive().max(100).optional() },
      reads: true,
      answer: async ({ path, top = 10 }) => {
        const analysis = analyseSnapshot(await readSnapshot(resolve(io.folder, path)));
        const findings = snapshotFindings(analysis).map(({ text, provenance }) => ({
          text,
          provenance,
        }));
        const { segments: _, ...document } = snapshotDocument(analysis, { top });
        return { findings, ...document };
      },
    }),
    tool({
      name: 'machine_state',
      description: 'The devices of this machine: total, used and free memory, and their processes.',
      input: {},
      reads: true,
      answer: async () => {
        const { devices, notes, close } = await openDevices(settings);
        try {
          const rows = devices.map(async (device) => ({
            ...device.info,
            ...(await device.read()),
            processes: await device.processes(),
          }));
          return { devices: await Promise.all(rows), notes };
        } finally {
          close();
        }
      },
    }),
  ];
  if (!allowPrograms) return reading;
  const running = tool({
    name: 'estimate_program',
    description:
      'The GPU memory that an unchanged PyTorch program needs, phase by phase. The program runs on a simulated GPU; its effects beside files are real.',
    input: {
      command: z.array(z.string()).min(1).describe('such as ["python", "train.py"]'),
      gpu: z.string().optional(),
    },
    reads: false,
    answer: async ({ command, gpu }) => {
      const { gpu: card } = await chosenGpu(gpu, machine);
      return estimateProgram({ command, gpu: card }, machine);
    },
  });
  return [...reading, running];
}

function explained(log: string): unknown {
  const scanner = createScanner();
  scanner.take(Buffer.from(`${log}\n`));
  const found = scanner.found()?.outOfMemory;
  if (found === undefined) {
    return {
      outOfMemory: null,
      words: 'No message about memory stands near the end of this text.',
    };
  }
  const { askedBytes, freeBytes } = found;
  const asked = isKnown(askedBytes) ? ` It asked for ${formatBytes(askedBytes)}.` : '';
  const free = isKnown(freeBytes) ? ` ${formatBytes(freeBytes)} were free.` : '';
  return {
    outOfMemory: found,
    words: `${outOfMemoryWords(found)}.${asked}${free}`,
    next: [
      'plimsoll run -- PROGRAM: recovers with the same effective batch',
      'plimsoll estimate -- PROGRAM: what fills the memory, and what other settings save',
      'plimsoll plan -- PROGRAM --batch-size {batch_size}: the largest batch that fits',
    ],
  };
}
