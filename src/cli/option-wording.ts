import type { RequestField, Wording } from '../plan/answers/wording.js';
import { formatBytes } from '../units/bytes.js';

/** Fields whose option has another name. */
const optionNames: Partial<Record<RequestField, string>> = {
  model: 'a model',
  args: '--arg',
  memoryBytes: '--memory',
  maxBatch: '--max-batch',
};

/** For those who type options. */
export const optionWording: Wording = {
  name: optionName,
  example: (field, value) => `${optionName(field)} ${shown(value)}`,
};

function optionName(field: RequestField): string {
  return optionNames[field] ?? `--${field}`;
}

function shown(value: unknown): string {
  if (typeof value === 'number') return formatBytes(value).replace('.0 ', '');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, text]) => `${name}=${String(text)}`)
    .join(' ');
}
