import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/home-folder.js';
import { type CatalogueModel, shippedCatalogue } from './catalogue.js';
import { cachedModel } from './hub-cache.js';
import { downloadConfig, type HubAccess } from './hub-download.js';
import { keepConfig, keptConfig, keptFolder } from './kept-config.js';
import { nameKey } from './name-key.js';
import { parametersInName } from './parameter-count.js';

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
  if (parameters === undefined) throw unknownModel(name);
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

function unknownModel(name: string): Failure {
  const meant = shippedCatalogue().nearest(name);
  return new Failure({
    kind: 'input',
    code: 'unknown-model',
    fact: `There is no file or folder "${name.slice(0, 200)}" here, and no known model of that name.`,
    next:
      meant === undefined
        ? 'Name a folder with its config.json, or give --parameters, or let --hub download its config.json.'
        : `Did you mean ${meant}? Otherwise give --parameters, or let --hub download its config.json.`,
  });
}
