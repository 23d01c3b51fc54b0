import type { Refusal } from '../../api/refusal.js';
import type { JobRequest, JobView } from '../../api/types.js';
import { type Draft, FieldReader, onlySet, type Problems } from './form-values.js';
import { joinCommand, splitCommand } from './split-command.js';
import {
  emptyWorkload,
  readWorkload,
  type WorkloadField,
  workloadFields,
} from './workload-draft.js';

const ownFields = [
  'command',
  'name',
  'memory',
  'batchSize',
  'priority',
  'gpus',
  'timeout',
  'cwd',
  'env',
] as const;
export type SubmitField = (typeof ownFields)[number] | WorkloadField;
export type SubmitDraft = Draft<SubmitField>;

export const emptySubmit: SubmitDraft = {
  ...emptyWorkload,
  command: '',
  name: '',
  memory: '',
  batchSize: '',
  priority: '',
  gpus: '',
  timeout: '',
  cwd: '',
  env: '',
};

/** A form filled with what a job was asked to be. */
export function draftLike(job: JobView): SubmitDraft {
  return {
    ...emptySubmit,
    command: joinCommand(job.command),
    name: job.name,
    memory: job.need.basis === 'stated' ? String(job.need.bytes) : '',
    priority: job.priority === 0 ? '' : String(job.priority),
    gpus: job.gpus === 1 ? '' : String(job.gpus),
    cwd: job.cwd,
  };
}

/** The request, or what is wrong with which field. */
export function readSubmit(
  draft: SubmitDraft,
): { readonly request: JobRequest } | { readonly problems: Problems<SubmitField> } {
  const reader = new FieldReader(draft);
  const split = splitCommand(draft.command);
  if ('problem' in split) reader.problems.command = split.problem;
  const env = readEnvironment(draft.env);
  if (env === 'unreadable') reader.problems.env = 'Write one NAME=value a line.';
  const workload = reader.text('model') === undefined ? undefined : readWorkload(reader);
  const request: JobRequest = onlySet({
    command: 'words' in split ? split.words : [],
    name: reader.text('name'),
    memoryBytes: reader.bytes('memory'),
    workload,
    batchSize: reader.whole('batchSize', 1),
    priority: reader.text('priority') === undefined ? undefined : reader.whole('priority', -100),
    gpus: reader.whole('gpus', 0),
    timeoutSeconds: reader.seconds('timeout'),
    cwd: reader.text('cwd'),
    env: env === 'unreadable' ? undefined : env,
  });
  return reader.isFine ? { request } : { problems: reader.problems };
}

function readEnvironment(text: string): Record<string, string> | undefined | 'unreadable' {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) return undefined;
  const found: Record<string, string> = {};
  for (const line of lines) {
    const match = /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line);
    if (match?.[1] === undefined) return 'unreadable';
    found[match[1]] = match[2] ?? '';
  }
  return found;
}

/** Fields that the server calls by another name than the form. */
const serverNames: Readonly<Record<string, SubmitField>> = {
  memoryBytes: 'memory',
  timeoutSeconds: 'timeout',
  workload: 'model',
};

/** Refusals that are about one field, whatever their words are. */
const codes: Readonly<Record<string, SubmitField>> = {
  'no-such-folder': 'cwd',
  'no-such-program': 'command',
};

/**
 * The field of the form that a refusal is about, as in `The field memoryBytes is -1.`; undefined
 * where it is about none in particular.
 */
export function fieldOf({ code, fact }: Pick<Refusal, 'code' | 'fact'>): SubmitField | undefined {
  const byCode = codes[code];
  if (byCode !== undefined) return byCode;
  const path = /\bfield "?(workload\.)?(\w+)/.exec(fact);
  const name = path?.[2];
  if (name === undefined) return undefined;
  if (path?.[1] !== undefined) return workloadFields.find((field) => field === name) ?? 'model';
  return serverNames[name] ?? ownFields.find((field) => field === name);
}
