import type { FamilyParts, FamilyRules } from '../families/family.js';
import { genericRules } from '../families/generic.js';
import { familyRules } from '../families/registry.js';
import { limits } from '../limits.js';
import type { Head, KnownModel, ModelDescription, WrittenScores } from '../model.js';
import { badConfig, ConfigFields, type ConfigValues, isRecord } from './config-fields.js';

/**
 * Describes the model that a config stands for. An unknown family says so and gives no numbers.
 *
 * @example
 * const model = describeConfig({ model_type: 'gpt2' }, 'config.json');
 * model.parameters; // 124439808
 */
export function describeConfig(config: ConfigValues, place: string): ModelDescription {
  const modelType = config.model_type;
  if (typeof modelType !== 'string' || modelType === '') {
    throw badConfig(place, 'it has no "model_type" that names the family');
  }
  const named = nameAndType(config);
  const own = familyRules.get(modelType);
  if (own !== undefined) {
    const { className, head, notes } = chooseClass(config, own, place);
    return described(config, place, named, { rules: own, className, head, notes });
  }
  const generic = genericRules(config);
  if ('unusual' in generic) {
    const note = `The family "${modelType.slice(0, 60)}" is not known, and ${generic.unusual}, so nothing is taken from its config.`;
    return { family: 'unknown', modelType, ...named, parameters: 'unknown', notes: [note] };
  }
  const { rules, className, takenFor } = generic;
  const head = rules.classes.get(className) ?? 'lm';
  const note = `Generic: the family "${modelType.slice(0, 60)}" has no formula of its own, so ${className.slice(0, 60)} was taken for ${takenFor}, from the standard fields of its config.`;
  const model = described(config, place, named, { rules, className, head, notes: [note] });
  const scores = writtenScoresOf(modelType);
  return { ...model, generic: true, ...(scores === undefined ? {} : { writtenScores: scores }) };
}

function described(
  config: ConfigValues,
  place: string,
  named: { readonly name?: string; readonly dtype?: string },
  { rules, className, head, notes }: ChosenClass & { readonly rules: FamilyRules },
): KnownModel {
  const fields = new ConfigFields(config, rules.table, place);
  const { parameters: list, ...parts } = rules.describe(fields, className, head);
  checkLayers(parts, place);
  const parameters = list.count();
  if (!Number.isSafeInteger(parameters)) {
    throw badConfig(place, 'its sizes make a model of more parameters than can be counted exactly');
  }
  return {
    family: rules.family,
    modelType: String(config.model_type),
    ...named,
    ...parts,
    className,
    parameters,
    trainableParameters: list.count(true),
    tensors: list.groups(),
    notes: [...notes, ...defaultNotes(fields), ...quantizationNotes(config)],
  };
}

/** Each tower was checked by itself; what counts is the model. */
function checkLayers({ stacks }: Pick<FamilyParts, 'stacks'>, place: string): void {
  const layers = stacks.flatMap((stack) => stack.layers).reduce((sum, { count }) => sum + count, 0);
  if (layers <= limits.layers) return;
  throw badConfig(place, `it has ${layers} layers in all; at most ${limits.layers} are taken`);
}

/** Some configs give little more than a family: then a size that was not given is worth a word. */
function defaultNotes({ assumed }: ConfigFields): readonly string[] {
  if (assumed.size === 0) return [];
  const names = [...assumed].toSorted().join(', ');
  return [`The config does not give ${names}; what transformers takes by default was taken.`];
}

interface ChosenClass {
  readonly className: string;
  readonly head: Head;
  readonly notes: readonly string[];
}

/** The first class that is known among those the config names, else the one usually trained. */
function chooseClass(config: ConfigValues, rules: FamilyRules, place: string): ChosenClass {
  const { architectures } = config;
  if (architectures !== undefined && architectures !== null && !Array.isArray(architectures)) {
    throw badConfig(place, '"architectures" is not a list');
  }
  const named: readonly unknown[] = architectures ?? [];
  for (const className of named) {
    const head = typeof className === 'string' ? rules.classes.get(className) : undefined;
    if (typeof className === 'string' && head !== undefined) return { className, head, notes: [] };
  }
  const [usual] = rules.classes;
  if (usual === undefined) throw badConfig(place, 'its family has no known class');
  const [className, head] = usual;
  const other = named.find((value) => typeof value === 'string');
  const notes =
    other === undefined
      ? []
      : [`The class ${other.slice(0, 60)} is not known; ${className} was taken in its place.`];
  return { className, head, notes };
}

function nameAndType(config: ConfigValues): { name?: string; dtype?: string } {
  const { _name_or_path: name, dtype, torch_dtype: formerly } = config;
  const type = dtype ?? formerly;
  return {
    ...(typeof name === 'string' && name !== '' ? { name: name.slice(0, 200) } : {}),
    ...(typeof type === 'string' ? { dtype: type.slice(0, 40) } : {}),
  };
}

function quantizationNotes({ quantization_config: quantization }: ConfigValues): readonly string[] {
  if (!isRecord(quantization)) return [];
  const method = quantization.quant_method;
  const how = typeof method === 'string' ? ` (${method.slice(0, 40)})` : '';
  return [`The config says that its weights are quantized${how}; parameters are those before it.`];
}

/**
 * Families of transformers 5 whose attention has no fused kernel: their code writes out a score for
 * each pair of tokens. No field of a config says so.
 */
const written: ReadonlyMap<string, WrittenScores> = new Map([
  ['codegen', '32-bit'],
  ['gptj', '32-bit'],
  ['gpt_neox_japanese', 'own-type'],
  ['gpt_oss', 'own-type'],
  ['granite_swa', '32-bit'],
  ['granitemoe_swa', '32-bit'],
  ['megatron-bert', 'own-type'],
  ['mimo_v2_flash', 'own-type'],
  ['mpnet', 'own-type'],
  ['openai-gpt', 'own-type'],
]);

/** Families of transformers 5 that are read generically, and whose attention is one fused kernel. */
const fused: ReadonlySet<string> = new Set([
  'afmoe',
  'arcee',
  'aria_text',
  'biogpt',
  'camembert',
  'cohere',
  'cohere2',
  'cohere2_moe',
  'ctrl',
  'cwm',
  'diffllama',
  'ernie4_5',
  'ernie4_5_moe',
  'exaone4',
  'exaone_moe',
  'flex_olmo',
  'glm',
  'glm4',
  'glm4_moe',
  'gpt_bigcode',
  'granite',
  'granitemoe',
  'granitemoeshared',
  'helium',
  'hy_v3',
  'hyperclovax',
  'jais2',
  'laguna',
  'mellum',
  'minimax_m2',
  'ministral3',
  'nanochat',
  'nemotron',
  'olmo',
  'olmo2',
  'olmo3',
  'olmoe',
  'persimmon',
  'phimoe',
  'seed_oss',
  'smollm3',
  'solar_open',
  'stablelm',
  'starcoder2',
  'vaultgemma',
  'xlm-roberta',
]);

/** How the code of a family keeps its scores; undefined where a fused kernel keeps none. */
function writtenScoresOf(modelType: string): WrittenScores | 'unknown' | undefined {
  return fused.has(modelType) ? undefined : (written.get(modelType) ?? 'unknown');
}
