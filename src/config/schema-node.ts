/** The part of JSON Schema that our configuration uses. */
export interface SchemaNode {
  readonly [keyword: string]: unknown;
  readonly type?: string | readonly string[] | undefined;
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
  readonly items?: unknown;
  readonly enum?: readonly unknown[] | undefined;
  readonly anyOf?: readonly unknown[] | undefined;
  readonly format?: string | undefined;
  readonly pattern?: string | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  readonly maxItems?: number | undefined;
}

export interface SchemaLeaf {
  /** `['alerts', 'gpuWarningPercent']`. */
  readonly path: readonly string[];
  readonly node: SchemaNode;
}

/** Every key that holds a value rather than further keys. */
export function schemaLeaves(node: SchemaNode, path: readonly string[] = []): SchemaLeaf[] {
  if (node.properties === undefined) return [{ path, node }];
  return Object.entries(node.properties).flatMap(([key, child]) =>
    isSchemaNode(child) ? schemaLeaves(child, [...path, key]) : [],
  );
}

/** The node a path leads to, through members and items. */
export function nodeAt(
  node: SchemaNode,
  path: readonly (string | number)[],
): SchemaNode | undefined {
  let current: SchemaNode = node;
  for (const step of path) {
    const child = typeof step === 'number' ? current.items : current.properties?.[step];
    if (!isSchemaNode(child)) return undefined;
    current = child;
  }
  return current;
}

/**
 * What a key takes, in words: `a number from 1 to 100`, `true, false or a text that is not empty`.
 *
 * @example
 * allowedWords({ type: 'number', minimum: 1, maximum: 100 }); // 'a number from 1 to 100'
 */
export function allowedWords(node: SchemaNode): string {
  return branchesOf(node)
    .flatMap((branch) => ownTypes(branch).map((type) => typeWords(type, branch)))
    .join(' or ');
}

/** The types a value may have: `['boolean', 'string']`. */
export function typesOf(node: SchemaNode): readonly string[] {
  return branchesOf(node).flatMap(ownTypes);
}

function branchesOf(node: SchemaNode): readonly SchemaNode[] {
  return node.anyOf ? node.anyOf.filter(isSchemaNode) : [node];
}

function ownTypes(node: SchemaNode): readonly string[] {
  return typeof node.type === 'string' ? [node.type] : (node.type ?? []);
}

function typeWords(type: string, node: SchemaNode): string {
  const { minimum = 0, maximum, maxLength = 0, maxItems = 0, items } = node;
  switch (type) {
    case 'number':
      if (maximum === undefined) return `a number of at least ${minimum}`;
      return `a number from ${minimum} to ${maximum}`;
    case 'boolean':
      return 'true, false';
    case 'integer':
      return `a whole number from ${minimum} to ${maximum}`;
    case 'array':
      return `a list of 1 to ${maxItems} ${isSchemaNode(items) ? itemsWords(items) : 'values'}`;
    case 'object':
      return `an object with the keys ${Object.keys(node.properties ?? {}).join(', ')}`;
    case 'string':
      if (node.enum) return `one of ${node.enum.join(', ')}`;
      if (node.pattern) return `a text of the form ${node.pattern}`;
      if (node.format === 'uri')
        return `an http or https address of at most ${maxLength} characters`;
      return node.minLength === 1 ? 'a text that is not empty' : 'a text';
    default:
      return type;
  }
}

function itemsWords(items: SchemaNode): string {
  if (items.properties) return `objects with the keys ${Object.keys(items.properties).join(', ')}`;
  return items.minLength === 1 ? 'texts that are not empty' : 'texts';
}

function isSchemaNode(value: unknown): value is SchemaNode {
  return typeof value === 'object' && value !== null;
}
