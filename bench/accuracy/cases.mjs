// Measured runs as the estimate takes them: where the model comes from, how it is run, what it took.
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withoutPythonNumbers } from '../../dist/model/config/config-fields.js';
import { truthFolder, truthPlace } from '../truth.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
/** Names in truth/peaks.json that torchvision writes in full. */
const visionNames = { mobilenet_v3: 'mobilenet_v3_large' };

/**
 * Reads `{results: [{id, model, mode, batch, seq, ..}]}`. Where a result does not say what its model
 * is (`source`: config, script or torchvision), a file of its name in the folders does. `FILE#SET` is one set of a file
 * that has several.
 */
export function readCases(name, folders) {
  const [file, set] = name.split('#');
  const kept = JSON.parse(readFileSync(file, 'utf8'));
  const { results } = set === undefined ? kept : kept[set];
  // A run that did not finish has no peak to hold anything against.
  return casesOf(
    results.filter(({ peak_reserved: reserved }) => Number.isInteger(reserved)),
    folders,
  );
}

/** Runs, measured or only listed, as the estimate takes them. */
export function casesOf(runs, folders) {
  return runs.map((measured) => {
    const source = sourceOf(measured, folders);
    return {
      id: measured.id,
      family: familyOf(source),
      source,
      workload: workloadOf(measured),
      measured,
    };
  });
}

/** The folders of the runs in truth/peaks.json. */
export const truthFolders = { configs: [join(truthPlace, 'configs')], scripts: [here] };

/** Where models and scripts are looked for: in the folders named, in those of truth/cases, and in `truthFolders`. */
export function caseFolders({ configs = [], scripts = [] } = {}) {
  const cases = truthFolder('cases');
  return {
    configs: [...configs, join(cases, 'configs'), ...truthFolders.configs],
    scripts: [...scripts, join(cases, 'scripts'), ...truthFolders.scripts],
  };
}

/** The case of a recorded run, by the name of its file. */
export function caseNamed(cases, eventFile) {
  const name = eventFile.replace(/\.json(\.gz)?$/, '');
  return cases.find(({ id }) => id.replaceAll('/', '_') === name);
}

function sourceOf({ model, batch, seq, source, args = { batch, seq } }, { configs, scripts }) {
  const config = fileIn(configs, `${model}.json`);
  const script = fileIn(scripts, `${model.replaceAll('-', '_')}.py`);
  const kind = source ?? (config ? 'config' : script ? 'script' : 'torchvision');
  if (kind === 'torchvision') return { kind, name: visionNames[model] ?? model };
  const path = kind === 'config' ? config : script;
  if (path === undefined) throw new Error(`There is no ${kind} of ${model} in the folders named.`);
  if (kind === 'config') return { kind, path };
  return { kind, path, args: Object.entries(args).map(([name, value]) => `${name}=${value}`) };
}

function fileIn(folders, name) {
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

function workloadOf(measured) {
  return {
    mode: measured.mode,
    batch: measured.batch,
    sequence: measured.seq ?? undefined,
    image: measured.image ?? undefined,
    precision: measured.precision,
    optimizer: measured.optimizer ?? 'adamw',
    checkpointing: measured.checkpointing ?? false,
    loraRank: measured.lora ?? undefined,
  };
}

function familyOf(source) {
  if (source.kind === 'config') {
    return JSON.parse(withoutPythonNumbers(readFileSync(source.path, 'utf8'))).model_type;
  }
  const name = source.kind === 'script' ? basename(source.path) : source.name;
  return /^[a-z]+/.exec(name)[0];
}
