import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/project-files.js';

export const deployFolder = join(root, 'deploy');

export function deployText(name: string): string {
  return readFileSync(join(deployFolder, name), 'utf8');
}

export function deployYaml(name: string): Yaml {
  return parsePlainYaml(deployText(name));
}

/** What lies at a path of keys and indices; an error where it ends early. */
export function at(value: Yaml, ...path: readonly (string | number)[]): Yaml {
  return path.reduce<Yaml>((node, key) => {
    const next: unknown = Reflect.get(Object(node), key);
    if (!isYaml(next)) throw new Error(`there is no ${path.join('.')}`);
    return next;
  }, value);
}

function isYaml(value: unknown): value is Yaml {
  return typeof value === 'string' || (typeof value === 'object' && value !== null);
}

export function entriesOf(value: Yaml): readonly (readonly [string, Yaml])[] {
  return typeof value === 'string' ? [] : Object.entries(value);
}

export function listOf(value: Yaml): readonly Yaml[] {
  return entriesOf(value).map(([, item]) => item);
}

export function textsOf(value: Yaml): readonly string[] {
  return listOf(value).filter((item) => typeof item === 'string');
}

/** What a YAML file of ours holds. */
export type Yaml = string | readonly Yaml[] | { readonly [key: string]: Yaml };

interface Line {
  readonly indent: number;
  readonly text: string;
  readonly number: number;
}

/**
 * Reads the plain part of YAML that the files in deploy/ keep to: mappings, lists, one-line flow lists
 * and mappings, quoted and folded text. Scalars stay text. Whatever else comes is an error with its
 * line, so a slip of the indentation is found without a tool.
 */
export function parsePlainYaml(text: string): Yaml {
  const lines = text.split('\n').flatMap((line, index): Line[] => {
    if (line.includes('\t')) throw new Error(`line ${index + 1}: a tab`);
    const content = line.trim();
    if (content === '' || content.startsWith('#')) return [];
    return [{ indent: line.length - line.trimStart().length, text: content, number: index + 1 }];
  });
  const reader = new Reader(lines);
  const value = reader.block(0);
  reader.end();
  return value;
}

class Reader {
  readonly #lines: readonly Line[];
  #at = 0;

  constructor(lines: readonly Line[]) {
    this.#lines = lines;
  }

  end(): void {
    const left = this.#lines[this.#at];
    if (left) throw new Error(`line ${left.number}: not where it should be: ${left.text}`);
  }

  block(indent: number): Yaml {
    const first = this.#lines[this.#at];
    if (first?.indent !== indent) throw new Error(`line ${first?.number ?? 'last'}: indentation`);
    return /^-( |$)/.test(first.text) ? this.#list(indent) : this.#mapping(indent);
  }

  #list(indent: number): Yaml {
    const items: Yaml[] = [];
    for (let line = this.#next(indent); line && /^-( |$)/.test(line.text); ) {
      const rest = line.text.slice(1).trim();
      if (keyOf(rest) === undefined) {
        this.#at += 1;
        items.push(
          rest === '' ? this.block(this.#deeper(indent, line)) : scalar(rest, line.number),
        );
      } else {
        // The first key of a mapping stands behind the dash; the others stand under it.
        items.push(this.#mapping(indent + 2, rest));
      }
      line = this.#next(indent);
    }
    return items;
  }

  #mapping(indent: number, firstText?: string): Yaml {
    const entries = new Map<string, Yaml>();
    let text = firstText;
    for (;;) {
      const line = text === undefined ? this.#next(indent) : this.#lines[this.#at];
      if (!line) return Object.fromEntries(entries);
      const pair = keyOf(text ?? line.text);
      if (pair === undefined) throw new Error(`line ${line.number}: no key: ${line.text}`);
      const [key, rest] = pair;
      if (entries.has(key)) throw new Error(`line ${line.number}: ${key} stands twice`);
      this.#at += 1;
      text = undefined;
      entries.set(key, this.#value(rest, indent, line));
    }
  }

  #value(rest: string, indent: number, line: Line): Yaml {
    if (rest === '>-' || rest === '|') return this.#folded(indent, rest === '|' ? '\n' : ' ');
    if (rest !== '') return scalar(rest, line.number);
    const below = this.#lines[this.#at];
    if (below === undefined || below.indent <= indent) return '';
    return this.block(this.#deeper(indent, line));
  }

  #folded(indent: number, joint: string): string {
    const parts: string[] = [];
    for (let line = this.#lines[this.#at]; line && line.indent > indent; ) {
      parts.push(line.text);
      this.#at += 1;
      line = this.#lines[this.#at];
    }
    return parts.join(joint);
  }

  #next(indent: number): Line | undefined {
    const line = this.#lines[this.#at];
    return line?.indent === indent ? line : undefined;
  }

  #deeper(indent: number, { number }: Line): number {
    const below = this.#lines[this.#at];
    if (below === undefined || below.indent <= indent) throw new Error(`line ${number}: no value`);
    return below.indent;
  }
}

/** A key with what stands behind its colon; undefined where there is none. */
function keyOf(text: string): readonly [string, string] | undefined {
  const match = /^([A-Za-z_][\w./-]*):(?: +(.*))?$/.exec(text);
  return match ? [match[1] ?? '', match[2] ?? ''] : undefined;
}

function scalar(text: string, number: number): Yaml {
  const quoted = /^(["'])(.*)\1$/.exec(text);
  if (quoted) return quoted[2] ?? '';
  const list = /^\[(.*)\]$/.exec(text);
  if (list) return (list[1] ?? '').split(',').map((item) => scalar(item.trim(), number));
  const mapping = /^\{ (.*) \}$/.exec(text);
  if (mapping) {
    const pairs = (mapping[1] ?? '').split(', ').map((item) => keyOf(item));
    return Object.fromEntries(
      pairs.map((pair) => [pair?.[0] ?? '', scalar(pair?.[1] ?? '', number)]),
    );
  }
  if (/^[[{"'&*!|>%@`]|: |: *$| #/.test(text)) {
    throw new Error(`line ${number}: quotes are missing, or it is no plain YAML: ${text}`);
  }
  return text;
}

/** A metric and the labels that an expression asks of it. */
export interface AskedMetric {
  readonly name: string;
  readonly labels: readonly string[];
}

/** Every metric that an expression of Prometheus names; what looks like one is one. */
export function metricsIn(expression: string): readonly AskedMetric[] {
  const found = [...expression.matchAll(/\b((?:plimsoll|process)_[a-z_]+)(?:\{([^}]*)\})?/g)];
  return found.map(([, name = '', selectors = '']) => ({
    name,
    labels: [...selectors.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map((match) => match[1] ?? ''),
  }));
}

/** What a page of metrics holds: each series by name, with the labels it has. */
export function metricsOn(page: string): ReadonlyMap<string, ReadonlySet<string>> {
  const series = new Map<string, Set<string>>();
  for (const line of page.split('\n')) {
    const [, name, labels = ''] = /^([a-z_]+)(?:\{(.*)\})? [^ ]+$/i.exec(line) ?? [];
    if (name === undefined) continue;
    const known = series.get(name) ?? new Set();
    for (const label of labels.matchAll(/(\w+)="/g)) known.add(label[1] ?? '');
    series.set(name, known);
  }
  return series;
}
