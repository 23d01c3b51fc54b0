import { z } from '@hono/zod-openapi';
import { allowedWords, type SchemaNode } from '../../config/schema.js';
import { Failure } from '../../failure.js';
import { nearest } from '../../units/words.js';

/** How the parts of a request are named to people, and the codes of what is wrong with them. */
export interface InputPart {
  /** `field` of a body, `option` of an address. */
  readonly noun: string;
  readonly badCode: string;
  readonly unknownCode: string;
}

export const bodyPart: InputPart = {
  noun: 'field',
  badCode: 'bad-field',
  unknownCode: 'unknown-field',
};
export const queryPart: InputPart = {
  noun: 'option',
  badCode: 'bad-option',
  unknownCode: 'unknown-option',
};

type Path = readonly (string | number)[];

/** Longer values are cut: a person wants to know it again, not to read it all. */
const shownCharacters = 60;

/** A schema with what people are told of it, made once. */
export interface Checked<Schema extends z.ZodType> {
  readonly schema: Schema;
  readonly node: SchemaNode;
}

export function checkable<Schema extends z.ZodType>(schema: Schema): Checked<Schema> {
  return { schema, node: z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) };
}

/** Checks what was sent; the first thing wrong with it becomes one `Failure`. */
export function checkInput<Schema extends z.ZodType>(
  value: unknown,
  { schema, node }: Checked<Schema>,
  part: InputPart,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = (issue?.path ?? []).filter((step) => typeof step !== 'symbol');
  if (issue?.code === 'unrecognized_keys') {
    const known = Object.keys(nodeAt(node, path)?.properties ?? {});
    throw unknownKey([...path, issue.keys[0] ?? ''], known, part);
  }
  const own = issue?.code === 'custom' ? issue.message : undefined;
  throw badValue(path, valueAt(value, path), own ?? takes(nodeAt(node, path)), part);
}

function unknownKey(path: Path, known: readonly string[], part: InputPart): Failure {
  const name = String(path.at(-1));
  // To compare takes time with every letter, and no name of ours is so long.
  const meant = name.length > shownCharacters ? undefined : nearest(name, known);
  const all = known.length === 0 ? 'There is none.' : `There are: ${known.join(', ')}.`;
  return new Failure({
    kind: 'input',
    code: part.unknownCode,
    fact: `There is no ${part.noun} ${shown(path.join('.'))}.`,
    next: meant === undefined ? all : `Did you mean "${meant}"?`,
    field: fieldOf(path),
  });
}

function badValue(path: Path, value: unknown, next: string, part: InputPart): Failure {
  const name = path.length === 0 ? 'The body' : `The ${part.noun} ${cut(path.join('.'))}`;
  return new Failure({
    kind: 'input',
    code: part.badCode,
    fact: value === undefined ? `${name} is missing.` : `${name} is ${shown(value)}.`,
    next,
    field: fieldOf(path),
  });
}

/** Of the caller's own names only so much: an answer stays small. */
function fieldOf(path: Path): string | undefined {
  return path.length === 0 ? undefined : path.join('.').slice(0, shownCharacters);
}

function takes(node: SchemaNode | undefined): string {
  const words = node === undefined ? '' : allowedWords(node);
  return words === '' ? 'Correct it.' : `It takes ${words}.`;
}

/** As in the configuration, but for members with names of the caller's own (`env`). */
function nodeAt(node: SchemaNode, path: Path): SchemaNode | undefined {
  let current: SchemaNode | undefined = node;
  for (const step of path) {
    if (current === undefined) return undefined;
    const child: unknown =
      typeof step === 'number'
        ? current.items
        : (current.properties?.[step] ?? current['additionalProperties']);
    current = isNode(child) ? child : undefined;
  }
  return current;
}

function isNode(value: unknown): value is SchemaNode {
  return typeof value === 'object' && value !== null;
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (current, step) =>
      Object.hasOwn(Object(current), step) ? Reflect.get(Object(current), step) : undefined,
    value,
  );
}

function shown(value: unknown): string {
  return cut(JSON.stringify(value) ?? String(value));
}

function cut(text: string): string {
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}...` : text;
}
