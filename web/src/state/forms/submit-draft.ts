import type { Refusal } from '../../api/refusal.js';
import type { JobRequest, WorkloadRequest } from '../../api/types.js';
import {
  type Draft,
  FieldReader,
  joinCommand,
  onlySet,
  type Problems,
  splitCommand,
} from './form-values.js';
import {
  draftOf,
  emptyWorkload,
  readWorkload,
  type WorkloadField,
  workloadFields,
} from './workload-draft.js';

const ownFields = [
  'command',
  'name',
  'memory',
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
  priority: '',
  gpus: '',
  timeout: '',
  cwd: '',
  env: '',
};

function asText(value: string | number | undefined): string {
  return value === undefined ? '' : String(value);
}

/** A form filled with all that a job was asked to be. */
export function draftLike(request: JobRequest): SubmitDraft {
  const { workload, env = {} } = request;
  const drafted = workload === undefined ? emptyWorkload : draftOf(workload);
  return {
    ...drafted,
    batch: asText(request.batch ?? workload?.batch),
    command: joinCommand(request.command),
    name: asText(request.name),
    memory: asText(request.memoryBytes),
    priority: request.priority === 0 ? '' : asText(request.priority),
    gpus: request.gpus === 1 ? '' : asText(request.gpus),
    timeout: request.timeoutSeconds === undefined ? '' : `${request.timeoutSeconds}s`,
    cwd: asText(request.cwd),
    env: Object.entries(env)
      .filter(([, value]) => isOneLine(value))
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  };
}

/**
 * The request, or what is wrong with which field. What the form has no field for is taken from the
 * request that it was filled with.
 */
export function readSubmit(
  draft: SubmitDraft,
  like?: JobRequest,
): { readonly request: JobRequest } | { readonly problems: Problems<SubmitField> } {
  const reader = new FieldReader(draft);
  const split = splitCommand(draft.command);
  if ('problem' in split) reader.problems.command = split.problem;
  const env = readEnvironment(draft.env);
  if (env === 'unreadable') reader.problems.env = 'Write one NAME=value a line.';
  const unseen = Object.entries(like?.env ?? {}).filter(([, value]) => !isOneLine(value));
  const workload = workloadOf(reader, like?.workload);
  const request: JobRequest = onlySet({
    command: 'words' in split ? split.words : [],
    name: reader.text('name'),
    memoryBytes: reader.bytes('memory'),
    workload,
    batch: reader.whole('batch', 1),
    priority: reader.text('priority') === undefined ? undefined : reader.whole('priority', -100),
    gpus: reader.whole('gpus', 0),
    timeoutSeconds: reader.seconds('timeout'),
    cwd: reader.text('cwd'),
    env: env === 'unreadable' ? undefined : withUnseen(env, unseen),
  });
  return reader.isFine ? { request } : { problems: reader.problems };
}

/** The form knows models, not scripts: a script that was sent before is sent again as it was. */
function workloadOf(
  reader: FieldReader<SubmitField>,
  like: WorkloadRequest | undefined,
): WorkloadRequest | undefined {
  if (reader.text('model') === undefined) return like?.script === undefined ? undefined : like;
  const fields: readonly string[] = workloadFields;
  const others = Object.entries(like ?? {}).filter(
    ([name]) => !fields.includes(name) && name !== 'script' && name !== 'args',
  );
  return onlySet({ ...Object.fromEntries(others), ...readWorkload(reader) });
}

/** Returns the model of the form, to ask for the assumptions; undefined without a model. */
export function workloadOfDraft(draft: SubmitDraft): WorkloadRequest | undefined {
  const workload = readWorkload(new FieldReader(draft));
  return workload.model === undefined ? undefined : workload;
}

/** The form takes a variable a line. */
function isOneLine(value: string): boolean {
  return !value.includes('\n');
}

function withUnseen(
  typed: Record<string, string> | undefined,
  unseen: readonly (readonly [string, string])[],
): Record<string, string> | undefined {
  return unseen.length === 0 ? typed : { ...Object.fromEntries(unseen), ...typed };
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
  batch: 'batch',
  memoryBytes: 'memory',
  timeoutSeconds: 'timeout',
  workload: 'model',
};

/** The field of the form that a refusal is about; undefined where it is about none in particular. */
export function fieldOf({ field }: Pick<Refusal, 'field'>): SubmitField | undefined {
  const [first = '', inner] = field?.split('.') ?? [];
  if (first === 'workload') return workloadFields.find((name) => name === inner) ?? 'model';
  return serverNames[first] ?? ownFields.find((name) => name === first);
}
