import { wholeNumber } from '../setting-names.js';

/** A configuration in a file, as far as Hydra's rules are followed here. */
export interface YamlTree {
  /** In the order of the file; `undefined` where the value is not a whole number. */
  readonly leaves: readonly {
    readonly path: readonly string[];
    readonly value: number | undefined;
  }[];
  /** The items of its list `defaults`, as they are written. */
  readonly defaults: readonly string[];
  /** What its head says of the place of its keys: `_global_`, `model.encoder`. */
  readonly package: string | undefined;
}

/** Configurations have some hundred lines; what is far longer is data. */
const maxLines = 20_000;

interface Open {
  readonly indent: number;
  /** Undefined inside a list: what is below has no path of keys. */
  readonly key: string | undefined;
}

/**
 * The keys of a YAML file with their paths, by its indentation; other forms of YAML are not looked into.
 *
 * @example
 * yamlLeaves('trainer:\n  batch_size: 8\n').leaves; // [{ path: ['trainer', 'batch_size'], value: 8 }]
 */
export function yamlLeaves(text: string): YamlTree {
  const leaves: { path: readonly string[]; value: number | undefined }[] = [];
  const defaults: string[] = [];
  const open: Open[] = [];
  for (const raw of text.split('\n', maxLines)) {
    const line = raw.replace(/(?:^|\s)#.*$/, '').trimEnd();
    const content = line.trimStart();
    const indent = line.length - content.length;
    if (content === '' || content === '---' || line.startsWith('\t')) continue;
    if (content === '-' || content.startsWith('- ')) {
      // A list may stand below its key, or as far left as it.
      close(open, (one) => one.indent > indent || (one.indent === indent && one.key === undefined));
      if (open.length === 1 && open[0]?.key === 'defaults') defaults.push(content.slice(1).trim());
      open.push({ indent, key: undefined });
      continue;
    }
    close(open, (one) => one.indent >= indent);
    const [, key, value = ''] = /^['"]?([\w.@/-]+)['"]?\s*:(?:\s+(.*))?$/.exec(content) ?? [];
    if (key === undefined) continue;
    const above = open.flatMap((one) => one.key ?? []);
    const isInList = above.length < open.length;
    if (value === '') open.push({ indent, key });
    else if (!isInList) leaves.push({ path: [...above, key], value: wholeNumber(value) });
  }
  const head = /^#\s*@package:?\s+(\S+)/m.exec(text.slice(0, 2000));
  return { leaves, defaults, package: head?.[1] };
}

function close(open: Open[], isOver: (one: Open) => boolean): void {
  for (let last = open.at(-1); last !== undefined && isOver(last); last = open.at(-1)) open.pop();
}
