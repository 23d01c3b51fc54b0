import { isAbsolute } from 'node:path';
import type { ModelSize, ModelSource, ModelType } from '../../estimate/model-source.js';
import { Failure } from '../../failure.js';
import type { RequestField, RequestWording } from './wording.js';

/** Before the name of a classifier of torchvision, in place of a path. */
export const visionPrefix = 'torchvision:';

/** Before a name that is looked for in the catalogue alone: no file is read for it. */
const cataloguePrefix = 'catalogue:';

/**
 * A model as it may be named for a client whose files are not read: a name in the catalogue. What is
 * no name stays as it is.
 *
 * @example
 * inCatalogue('llama-3-8b'); // 'catalogue:llama-3-8b'
 */
export function inCatalogue(model: string): string {
  const isOther = model.startsWith(visionPrefix) || model.startsWith(cataloguePrefix);
  return !isOther && isModelName(model) ? `${cataloguePrefix}${model}` : model;
}

/** Fields of a request that name the model. */
export interface NamedModel {
  readonly model?: string | undefined;
  readonly script?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly type?: ModelType | undefined;
  readonly size?: ModelSize | undefined;
  readonly parameters?: number | undefined;
}

/** A model by its name is found later: that may touch the disk. */
export type NamedSource =
  | ModelSource
  | { readonly kind: 'name'; readonly name: string; readonly catalogueOnly: boolean };

/** The one model that was named; two of them, or none, is a `Failure`. */
export function sourceOf(named: NamedModel, wording: RequestWording): NamedSource {
  const { model, script, args = [], type, size, parameters } = named;
  const { name, example } = wording;
  const ways = { model, script, type: type ?? size, parameters } as const;
  const given = (['model', 'script', 'type', 'parameters'] as const).filter(
    (field) => ways[field] !== undefined,
  );
  const [first, second] = given;
  if (first !== undefined && second !== undefined) {
    throw badUsage(`Both ${name(first)} and ${name(second)} were given.`, 'Leave one of them out.');
  }
  if (script !== undefined) return { kind: 'script', path: absolute(script, 'script', name), args };
  if (args.length > 0) {
    throw badUsage(
      `${name('args')} is for a ${name('script')}, and none was given.`,
      'Leave it out.',
    );
  }
  if (type !== undefined && size !== undefined) return { kind: 'type', type, size };
  if (type !== undefined || size !== undefined) {
    throw badUsage(
      `${name('type')} and ${name('size')} go together.`,
      `Give both, such as ${example('type', 'cnn')} ${example('size', 'small')}.`,
    );
  }
  if (parameters !== undefined) return { kind: 'parameters', parameters };
  if (model === undefined) {
    const { program } = wording;
    const other = program === undefined ? '' : ` For a program write: ${program}`;
    throw badUsage(
      'No model was given.',
      `Name one, or a config.json, or a ${name('script')}.${other}`,
    );
  }
  if (model.startsWith(visionPrefix)) {
    return { kind: 'torchvision', name: model.slice(visionPrefix.length) };
  }
  if (model.startsWith(cataloguePrefix)) {
    return { kind: 'name', name: model.slice(cataloguePrefix.length), catalogueOnly: true };
  }
  if (isModelName(model)) return { kind: 'name', name: model, catalogueOnly: false };
  return { kind: 'path', path: absolute(model, 'model', name) };
}

/** Longer ones are no names; hubs allow 96 characters for each of both parts. */
const longestName = 200;

/**
 * Whether a text can be the name of a model: letters, digits and what stands between them, at most one
 * organization before it, and no ending of a file.
 *
 * @example
 * isModelName('meta-llama/Meta-Llama-3-8B'); // true
 */
export function isModelName(text: string): boolean {
  if (text.length > longestName || /\.(json|safetensors|gguf|bin|pt|pth|py)$/i.test(text))
    return false;
  return /^(?:\w[\w.-]*\/)?\w[\w.: +-]*$/.test(text);
}

/** Makes a path absolute, because client and server may stand in different folders. */
function absolute(path: string, field: RequestField, name: RequestWording['name']): string {
  if (isAbsolute(path)) return path;
  throw badUsage(
    `${name(field)} is "${path.slice(0, 100)}", which is not an absolute path.`,
    'Write it from the root on.',
    field,
  );
}

function badUsage(fact: string, next: string, field?: RequestField): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next, field });
}
