import { configName } from './config/read-config.js';

export const indexName = 'model.safetensors.index.json';

/** What in a folder stands for its model. */
export interface FolderChoice {
  readonly config?: string;
  readonly weights?: { readonly format: 'index' | 'safetensors' | 'gguf'; readonly name: string };
  /** Why weights that are there were left alone. */
  readonly notes: readonly string[];
}

export type FolderAnswer = FolderChoice | { readonly why: string; readonly next?: string };

/**
 * Chooses by the names in a folder. GGUF files go before a config: folders that hold only those
 * often have a config of one line, which gives the family and none of its sizes.
 */
export function chooseInFolder(names: readonly string[]): FolderAnswer {
  const config = names.includes(configName) ? { config: configName } : {};
  if (names.includes(indexName)) {
    return { ...config, weights: { format: 'index', name: indexName }, notes: [] };
  }
  const files = names.filter((name) => name.endsWith('.safetensors'));
  const chosen = files.includes('model.safetensors') ? 'model.safetensors' : files[0];
  if (chosen !== undefined && (files.length === 1 || chosen === 'model.safetensors')) {
    return { ...config, weights: { format: 'safetensors', name: chosen }, notes: [] };
  }
  if (files.length > 1) return severalSafetensors(config, files.length);
  const gguf = wholeGguf(names.filter((name) => name.endsWith('.gguf')));
  const [name] = gguf;
  if (name !== undefined && gguf.length === 1) {
    return { weights: { format: 'gguf', name }, notes: [] };
  }
  if (gguf.length > 1) {
    return { why: `it holds ${gguf.length} GGUF models`, next: 'Name one of them.' };
  }
  if (config.config !== undefined) return { ...config, notes: [] };
  return { why: `it holds no ${configName} and no weights` };
}

function severalSafetensors(config: { config?: string }, count: number): FolderAnswer {
  const holds = `holds ${count} safetensors files and no ${indexName} that says which belong together`;
  if (config.config === undefined) return { why: `it ${holds}`, next: 'Name one of them.' };
  return { ...config, notes: [`The weights were not read: the folder ${holds}.`] };
}

/** Of a model that was split only the first part. */
function wholeGguf(names: readonly string[]): readonly string[] {
  return names.filter((name) => /-00001-of-\d{5}\.gguf$|^(?!.*-\d{5}-of-\d{5}\.gguf$)/.test(name));
}
