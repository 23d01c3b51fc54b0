import { readdirSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { Failure } from '../../failure.js';
import { homeFolder, makeFolder, packageFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { readOwnFile } from '../../files/own-file.js';
import { configName, readConfigValues } from '../config/read-config.js';
import { limits } from '../limits.js';
import { Catalogue, type CatalogueModel, nameKey, parseCatalogue } from './catalogue.js';
import { parametersInName } from './usual-decoder.js';

/** What a name stands for, and how it was found. */
export interface NamedModel {
  readonly source:
    | { readonly kind: 'path'; readonly path: string }
    | { readonly kind: 'parameters'; readonly parameters: number };
  readonly notes: readonly string[];
}

export interface NamePlace extends HubAccess {
  /** Whether config.json may be downloaded. */
  readonly hub?: boolean | undefined;
  /** Looks nowhere else: caches and downloads may be of another user. */
  readonly catalogueOnly?: boolean | undefined;
  /** How else a model can be given, for the error: `give --parameters`. */
  readonly otherModels?: string | undefined;
}

/**
 * Finds a model by its name: in the local cache of Hugging Face, on the hub where that is allowed, in
 * what was downloaded before, in the catalogue; else by the number of parameters in the name. Throws a
 * `Failure` (`unknown-model`) with the name that was probably meant.
 *
 * @example
 * const { source, notes } = await findModel('llama-3-8b', { environment: process.env });
 */
export async function findModel(name: string, place: NamePlace): Promise<NamedModel> {
  const { environment, hub = false } = place;
  const home = homeFolder(environment);
  if (place.catalogueOnly !== true) {
    const cached = cachedModel(name, environment);
    if (cached !== undefined) {
      return ofPath(cached, `The model "${name}" is in the local Hugging Face cache.`);
    }
    const kept = keptFolder(home, 'hub', name);
    if (hub) {
      const path = keepConfig(kept, await downloadConfig(name, place));
      return ofPath(path, `The config.json of "${name}" was downloaded.`);
    }
    if (keptConfig(kept) !== undefined) {
      return ofPath(kept, `The config.json of "${name}" was downloaded earlier.`);
    }
  }
  const model = shippedCatalogue().find(name);
  if (model !== undefined) return ofCatalogue(name, model, home);
  const parameters = parametersInName(name);
  if (parameters === undefined) throw unknownModel(name, place.otherModels);
  return { source: { kind: 'parameters', parameters }, notes: [notFoundNote(name)] };
}

function ofPath(path: string, note: string): NamedModel {
  return { source: { kind: 'path', path }, notes: [note] };
}

function ofCatalogue(name: string, model: CatalogueModel, home: string): NamedModel {
  const text = `${JSON.stringify(model.config, undefined, 2)}\n`;
  const path = keepConfig(keptFolder(home, 'catalogue', model.name), text);
  const same = [model.name, ...model.also].find((one) => nameKey(one) === nameKey(name));
  const note =
    same === undefined
      ? `"${name}" is taken for ${model.name} of the catalogue, without the word at its end.`
      : `The sizes of ${same} are from the catalogue.`;
  return ofPath(path, note);
}

function notFoundNote(name: string): string {
  const meant = shippedCatalogue().nearest(name);
  const hint = meant === undefined ? '' : ` Did you mean ${meant}?`;
  return `The model "${name}" is not known; only the number of parameters in its name was used.${hint}`;
}

function unknownModel(name: string, otherModels: string | undefined): Failure {
  const vision = visionName(name);
  const meant = vision === undefined ? shippedCatalogue().nearest(name) : `torchvision:${vision}`;
  return new Failure({
    kind: 'input',
    code: 'unknown-model',
    fact: `There is no file or folder "${name.slice(0, 200)}" here, and no known model of that name.`,
    next:
      meant === undefined
        ? `Name a folder with its config.json${otherModels === undefined ? '' : `, or ${otherModels}`}.`
        : `Did you mean ${meant}? Otherwise ${otherModels ?? 'name a folder with its config.json'}.`,
    field: 'model',
  });
}

/** How the classifiers of torchvision are called. */
const visionFamilies =
  /^(?:alexnet|convnext_(?:tiny|small|base|large)|densenet(?:121|161|169|201)|efficientnet_(?:b[0-7]|v2_[sml])|googlenet|inception_v3|maxvit_t|mnasnet[01]_[0357]+|mobilenet_(?:v2|v3_(?:large|small))|regnet_[xy]_\d+(?:_\d)?[mg]f|resnet(?:18|34|50|101|152)|resnext(?:50_32x4d|101_(?:32x8d|64x4d))|shufflenet_v2_x[012]_[05]|squeezenet1_[01]|swin_(?:v2_)?[tsb]|vgg(?:11|13|16|19)(?:_bn)?|vit_(?:[bl]_(?:16|32)|h_14)|wide_resnet(?:50|101)_2)$/;

/** What torchvision calls a name that people write as `ResNet-50`. */
function visionName(name: string): string | undefined {
  const spellings = ['', '_'].map((dash) => name.toLowerCase().replaceAll(/[-\s]/g, dash));
  return spellings.find((one) => visionFamilies.test(one));
}

/** A config comes within a second; a hub that is silent so long does not answer. */
const patienceMs = 60_000;
const usualEndpoint = 'https://huggingface.co';
/** Organization and name, each as the hub allows them; nothing that could lead elsewhere. */
const hubName = /^(?:[\w][\w.-]{0,95}\/)?[\w][\w.-]{0,95}$/;

/** Who asks the hub, and where it is. */
interface HubAccess {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Downloads the config.json of a model, and nothing else, from the hub that `HF_ENDPOINT` names, with
 * `HF_TOKEN` where it is set. Answers its text, checked to be the config of a model.
 *
 * @example
 * await downloadConfig('openai-community/gpt2', { environment: process.env });
 */
async function downloadConfig(name: string, access: HubAccess): Promise<string> {
  if (!hubName.test(name) || name.includes('..')) {
    throw hubFailure(name, 'a hub has no such names', 'Write it as organization/name.');
  }
  const address = addressOf(name, access.environment['HF_ENDPOINT'] ?? usualEndpoint);
  const token = access.environment['HF_TOKEN'];
  const text = await textAt(address, name, token, access.signal);
  const bytes = Buffer.from(text);
  readConfigValues(
    { size: bytes.length, read: (into, from) => bytes.copy(into, 0, from) },
    address.href,
  );
  return text;
}

function addressOf(name: string, endpoint: string): URL {
  const base = endpoint.endsWith('/') ? endpoint : `${endpoint}/`;
  if (!/^https?:\/\//i.test(base) || !URL.canParse(base)) {
    throw hubFailure(
      name,
      `HF_ENDPOINT is "${endpoint.slice(0, 100)}", which is not a web address`,
      'Correct it, or unset it.',
    );
  }
  return new URL(`${name}/resolve/main/config.json`, base);
}

async function textAt(
  address: URL,
  name: string,
  token: string | undefined,
  signal: AbortSignal | undefined,
): Promise<string> {
  const patience = AbortSignal.timeout(patienceMs);
  try {
    const answer = await fetch(address, {
      headers: token ? { authorization: `Bearer ${token}` } : {},
      signal: signal === undefined ? patience : AbortSignal.any([signal, patience]),
    });
    if (!answer.ok) {
      await answer.body?.cancel();
      throw refused(name, answer.status, token !== undefined);
    }
    return await limitedText(answer, name);
  } catch (error) {
    if (error instanceof Failure || signal?.aborted) throw error;
    const why = error instanceof Error ? (causeOf(error) ?? error.message) : String(error);
    throw hubFailure(
      name,
      `${address.host} cannot be asked (${why.slice(0, 120)})`,
      'Check the network and HF_ENDPOINT, or leave --hub out.',
      error,
    );
  }
}

function causeOf({ cause }: Error): string | undefined {
  return cause instanceof Error && cause.message !== '' ? cause.message : undefined;
}

/** Counted while it comes: the size that a server names may be wrong. */
async function limitedText(answer: Response, name: string): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > limits.configBytes) {
      throw hubFailure(
        name,
        `its config.json is larger than ${limits.configBytes} bytes`,
        'Check the name.',
      );
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function refused(name: string, status: number, hasToken: boolean): Failure {
  if (status === 404) {
    return hubFailure(name, 'the hub has no config.json of that name', 'Check the name.');
  }
  if (status === 401 || status === 403) {
    return hubFailure(
      name,
      `the hub does not give it to this user (${status})`,
      hasToken
        ? 'Check the name, HF_TOKEN, and whether its terms were accepted on the hub.'
        : 'Check the name; for a gated model set HF_TOKEN.',
    );
  }
  return hubFailure(name, `the hub answered ${status}`, 'Try again later.');
}

function hubFailure(name: string, why: string, next: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'missing',
    code: 'hub-failed',
    fact: `The config of "${name.slice(0, 200)}" was not downloaded: ${why}.`,
    next,
    cause,
  });
}

/** Where a config of that name is kept: from the catalogue, or from the hub. */
function keptFolder(home: string, from: 'catalogue' | 'hub', name: string): string {
  return join(home, 'models', from, name.replaceAll('/', '--'));
}

/** The folder, where a config was kept there before. */
function keptConfig(folder: string): string | undefined {
  const text = readOwnFile(join(folder, configName), limits.configBytes);
  return text === undefined || text === '' ? undefined : folder;
}

/** Writes a config where Python can read it too; one that is there and the same is left alone. */
function keepConfig(folder: string, text: string): string {
  const file = join(folder, configName);
  if (readOwnFile(file, limits.configBytes) === text) return folder;
  try {
    makeFolder(folder, 0o700);
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'cannot-write',
      fact: `The folder ${folder} cannot be made (${error instanceof Error ? error.message : String(error)}).`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
  openOutputFile(file, folder).write(text);
  return folder;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The folder in which `huggingface_hub` keeps what it downloaded.
 *
 * @example
 * hubCacheFolder({ HF_HOME: '/data/hf' }); // '/data/hf/hub'
 */
function hubCacheFolder(environment: Environment, userHome: string = homedir()): string {
  const named = environment['HF_HUB_CACHE'] ?? environment['HUGGINGFACE_HUB_CACHE'];
  if (named) return named;
  const home = environment['HF_HOME'];
  if (home) return join(home, 'hub');
  return join(environment['XDG_CACHE_HOME'] ?? join(userHome, '.cache'), 'huggingface', 'hub');
}

/** Names in a folder; a cache that is not there or may not be read has none. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/**
 * The snapshot of a model that lies in the cache, with at least its config. A name without an
 * organization is found where only one organization has it.
 *
 * @example
 * cachedModel('openai-community/gpt2', process.env);
 */
function cachedModel(name: string, environment: Environment): string | undefined {
  const cache = hubCacheFolder(environment);
  const wanted = name.toLowerCase().replaceAll('/', '--');
  const matches = namesIn(cache).filter((folder) => {
    const own = folder.toLowerCase();
    if (!own.startsWith('models--')) return false;
    return own === `models--${wanted}` || (!name.includes('/') && own.endsWith(`--${wanted}`));
  });
  const found = matches.flatMap((folder) => snapshotIn(join(cache, folder)) ?? []);
  return found.length === 1 ? found[0] : undefined;
}

/** The revision that `main` names, else the latest one that has a config. */
function snapshotIn(folder: string): string | undefined {
  const snapshots = join(folder, 'snapshots');
  const main = mainRevision(folder);
  const others = namesIn(snapshots).map((name) => join(snapshots, name));
  const inOrder = [
    ...(main === undefined ? [] : [join(snapshots, main)]),
    ...others.toSorted((one, other) => changedMs(other) - changedMs(one)),
  ];
  return inOrder.find((path) => isFile(join(path, configName)));
}

/** A commit has 40 digits; anything else in that file is not followed. */
function mainRevision(folder: string): string | undefined {
  try {
    const path = join(folder, 'refs', 'main');
    if (!isFile(path) || statSync(path).size > 100) return undefined;
    const text = readFileSync(path, 'utf8').trim();
    return /^[\da-f]{40}$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

function changedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

let shipped: Catalogue | undefined;

/** The catalogue of this package; the Python package reads the same file. */
export function shippedCatalogue(): Catalogue {
  shipped ??= new Catalogue(
    parseCatalogue(readFileSync(join(packageFolder, 'python/plimsoll/models.jsonl'), 'utf8')),
  );
  return shipped;
}

/**
 * The name of a model that was found by its name, from the folder in which its config lies; undefined
 * for a folder of one's own. What is saved for a model goes by that name, as Python loads it by name.
 *
 * @example
 * publishedName('/srv/plimsoll/models/hub/Qwen--Qwen2.5-7B', '/srv/plimsoll'); // 'Qwen/Qwen2.5-7B'
 */
export function publishedName(folder: string, home: string): string | undefined {
  const cached = /[\\/]models--([^\\/]+)[\\/]snapshots[\\/][^\\/]+[\\/]?$/.exec(folder);
  if (cached?.[1] !== undefined) return cached[1].replace('--', '/');
  const [from, name, ...deeper] = relative(join(home, 'models'), folder).split(sep);
  if ((from !== 'hub' && from !== 'catalogue') || name === undefined || deeper.length > 0) {
    return undefined;
  }
  return name.replace('--', '/');
}
