import { dirname, join } from 'node:path';
import { readModel } from '../model/read-model.js';
import type { Model } from '../model/types.js';
import type { ModelSize, ModelType } from './model-types.js';

/** What stands for the model of an estimate. */
export type ModelSource =
  /** A Hugging Face config.json, weights, or a folder of them. */
  | { readonly kind: 'path'; readonly path: string }
  /** A classifier of torchvision by its name. */
  | { readonly kind: 'torchvision'; readonly name: string }
  /** A Python file that defines `workload(**args)`; each argument is `name=value`. */
  | { readonly kind: 'script'; readonly path: string; readonly args: readonly string[] }
  /** A model of which only its number of parameters is known. */
  | { readonly kind: 'parameters'; readonly parameters: number }
  /** For those who have nothing but that. */
  | { readonly kind: 'type'; readonly type: ModelType; readonly size: ModelSize };

/** A model that was read, and the config from which Python can build it, where there is one. */
export interface ReadSource {
  readonly model: Model;
  readonly config?: string;
}

/**
 * Reads a model, and finds the config that Python would build it from. Weights of GGUF have none:
 * what runs them computes with the quantized weights, and a config tells nothing of those.
 *
 * @example
 * await readSource('models/gpt2/model.safetensors'); // { model, config: 'models/gpt2/config.json' }
 */
export async function readSource(path: string): Promise<ReadSource> {
  const model = await readModel(path);
  const { weights, description } = model;
  if (weights?.format === 'gguf') return { model };
  if (weights === undefined && /\.json$/i.test(path)) return { model, config: path };
  // Only a description that came from a config names what it describes.
  if (description.modelType === 'unknown') return { model };
  const isFile = /\.(safetensors|json)$/i.test(path);
  return { model, config: join(isFile ? dirname(path) : path, 'config.json') };
}
