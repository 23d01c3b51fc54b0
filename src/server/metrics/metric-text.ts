import { readable } from '../errors/error-body.js';

/** One figure; a label without a value is left out. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string | undefined>>;
  readonly value: number;
}

/** All figures of one name. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  readonly samples: readonly MetricSample[];
}

/** A program may call itself anything; a page of metrics is not for stories. */
const longestValue = 200;

/**
 * The text format of Prometheus; a family without figures is left out.
 *
 * @example
 * metricText([{ name: 'up', help: 'It is up.', type: 'gauge', samples: [{ labels: {}, value: 1 }] }]);
 * // '# HELP up It is up.\n# TYPE up gauge\nup 1\n'
 */
export function metricText(families: readonly MetricFamily[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(({ labels, value }) => `${name}${labelText(labels)} ${value}\n`);
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function labelText(labels: MetricSample['labels']): string {
  let text = '';
  for (const name in labels) {
    const value = labels[name];
    if (value === undefined || value === '') continue;
    text += `${text === '' ? '{' : ','}${name}="${isPlain.test(value) ? value : escaped(value)}"`;
  }
  return text === '' ? '' : `${text}}`;
}

/** Nearly all values need no change, and a page has thousands of them. */
const isPlain = /^[\w.:/ -]{1,200}$/;

function escaped(value: string): string {
  const short = readable(value).slice(0, longestValue);
  return short.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}
