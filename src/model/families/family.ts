import type { ConfigFields, FieldTable } from '../config/config-fields.js';
import type { ParameterList } from '../parameter-list.js';
import type { Dropout, Family, Head, LayerGroup, ModelKind, Stack } from '../types.js';

/** What a family's rules find out from a config. */
export interface FamilyParts {
  readonly kind: ModelKind;
  readonly head: Head;
  readonly outputs: number;
  readonly tied: boolean;
  readonly stacks: readonly Stack[];
  readonly parameters: ParameterList;
}

/** How one `model_type` is read. */
export interface FamilyRules {
  readonly family: Family;
  readonly table: FieldTable;
  /** Classes whose parameters are known, each with its head; the first is the one usually trained. */
  readonly classes: ReadonlyMap<string, Head>;
  describe(fields: ConfigFields, className: string, head: Head): FamilyParts;
}

export const noDropout: Dropout = {
  embedding: 0,
  attention: 0,
  hidden: 0,
  activation: 0,
  path: 0,
};

/** Joins neighbours that are alike, so that a model of equal layers has one group. */
export function groupLayers(layers: readonly Omit<LayerGroup, 'count'>[]): readonly LayerGroup[] {
  const groups: LayerGroup[] = [];
  let before = '';
  for (const layer of layers) {
    const key = JSON.stringify(layer);
    const last = groups.at(-1);
    if (last !== undefined && key === before)
      groups[groups.length - 1] = { ...last, count: last.count + 1 };
    else groups.push({ ...layer, count: 1 });
    before = key;
  }
  return groups;
}

/** `count` layers that are all alike. */
export function equalLayers(
  count: number,
  layer: Omit<LayerGroup, 'count'>,
): readonly LayerGroup[] {
  return count === 0 ? [] : [{ ...layer, count }];
}
