import { type YamlTree, yamlLeaves } from './yaml-leaves.js';

/** The text of a configuration by its path below the configuration folder, without `.yaml`. */
export type ReadConfig = (name: string) => string | undefined;

/** A configuration is made of some ten files; one that has more is not followed to its end. */
const maxFiles = 64;

interface Part {
  readonly group: string;
  readonly choice: string;
  readonly package: readonly string[];
  /** `choice`: one of a group; `override`: replaces an earlier choice; `file`: a config named directly. */
  readonly kind: 'choice' | 'override' | 'file';
}

/**
 * The whole numbers of a configuration of Hydra, by their paths: its file, and what its lists `defaults`
 * name. `choices` are those of the command line.
 *
 * @example
 * compose('config', new Map([['trainer', 'small']]), read).get('trainer.batch_size'); // 8
 */
export function compose(
  name: string,
  choices: ReadonlyMap<string, string>,
  read: ReadConfig,
): ReadonlyMap<string, number> {
  const chosen = new Map(choices);
  const overrides = new Map<string, string>();
  // What a file chooses for others may stand behind them: the second time it is known.
  composed(name, new Map(choices), read, overrides);
  for (const [group, choice] of overrides) if (!chosen.has(group)) chosen.set(group, choice);
  return composed(name, chosen, read, new Map());
}

function composed(
  name: string,
  choices: ReadonlyMap<string, string>,
  read: ReadConfig,
  overrides: Map<string, string>,
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const named = new Set<string>();
  let files = 0;

  function add(file: string, above: readonly string[]): void {
    const text = files++ < maxFiles ? read(file) : undefined;
    if (text === undefined) return;
    const tree = yamlLeaves(text);
    const base = tree.package === undefined ? above : placed(tree.package, above);
    const group = file.split('/').slice(0, -1).join('/');
    let isSelfAdded = false;
    for (const item of tree.defaults) {
      if (item === '_self_') {
        addLeaves(tree, base);
        isSelfAdded = true;
        continue;
      }
      const part = readPart(item, group, base);
      if (part === undefined) continue;
      if (part.kind === 'override') overrides.set(part.group, part.choice);
      else if (part.kind === 'file') add(joined(part.group, part.choice), part.package);
      else addPart(part);
    }
    if (!isSelfAdded) addLeaves(tree, base);
  }

  function addPart(part: Part): void {
    named.add(part.group);
    const choice = choices.get(part.group) ?? part.choice;
    if (choice !== 'null') add(joined(part.group, choice), part.package);
  }

  function addLeaves({ leaves }: YamlTree, base: readonly string[]): void {
    for (const { path, value } of leaves) {
      const whole = [...base, ...path].join('.');
      if (value === undefined) found.delete(whole);
      else found.set(whole, value);
    }
  }

  add(name, []);
  // A choice of the command line that no list names is added behind them: `+experiment=large`.
  for (const [group, choice] of choices) {
    if (!named.has(group)) add(joined(group, choice), group.split('/'));
  }
  return found;
}

/** `trainer: small`, `override /model@encoder: big`, `optional db: mysql`, `base`. */
function readPart(item: string, group: string, base: readonly string[]): Part | undefined {
  const match =
    /^(override\s+)?(?:optional\s+)?['"]?([\w/.-]+?)(?:@([\w.]+))?['"]?\s*(?::\s*(.*))?$/.exec(
      item,
    );
  if (match === null) return undefined;
  const [, override, name = '', at, choice] = match;
  const whole = name.startsWith('/') ? name.slice(1) : joined(group, name);
  // Without a choice it is a file beside the others, whose keys stand where those of its list do.
  if (choice === undefined) {
    const path = whole.split('/');
    const file = path.pop() ?? '';
    return { group: path.join('/'), choice: file, package: base, kind: 'file' };
  }
  const word = choice.replaceAll(/^['"]|['"]$/g, '');
  if (!/^[\w./-]+$/.test(word)) return undefined;
  return {
    group: whole,
    choice: word.replace(/\.ya?ml$/, ''),
    package: at === undefined ? [...base, ...name.split('/').filter(Boolean)] : placed(at, base),
    kind: override === undefined ? 'choice' : 'override',
  };
}

function placed(name: string, above: readonly string[]): readonly string[] {
  if (name === '_global_') return [];
  if (name === '_here_' || name === '_group_') return above;
  return name.split('.');
}

function joined(group: string, name: string): string {
  return group === '' ? name : `${group}/${name}`;
}
