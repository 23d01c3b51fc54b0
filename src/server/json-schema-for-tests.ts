/**
 * The part of JSON Schema (2020-12) that the document uses, checked without the library that wrote
 * it: what a client in another language would do. A keyword that is not known here is an error, so
 * that nothing passes unseen.
 */
export type Schema = Readonly<Record<string, unknown>>;

const annotations = new Set(['description', 'example', 'examples', 'title', 'default', 'format']);

export function schemaErrors(
  value: unknown,
  schema: Schema,
  document: unknown,
  at = '$',
): readonly string[] {
  return Object.entries(schema).flatMap(([keyword, rule]) => {
    if (annotations.has(keyword)) return [];
    const check = keywords[keyword];
    if (check === undefined) return [`${at}: the keyword ${keyword} is not known here`];
    return check({ value, rule, schema, document, at });
  });
}

interface Check {
  readonly value: unknown;
  readonly rule: unknown;
  readonly schema: Schema;
  readonly document: unknown;
  readonly at: string;
}

const keywords: Readonly<Record<string, (check: Check) => readonly string[]>> = {
  $ref: ({ value, rule, document, at }) =>
    schemaErrors(value, resolveRef(String(rule), document), document, at),
  type: ({ value, rule, at }) =>
    list(rule).some((type) => hasType(value, String(type)))
      ? []
      : [`${at}: ${JSON.stringify(value)} is no ${list(rule).join(' or ')}`],
  enum: ({ value, rule, at }) =>
    list(rule).includes(value)
      ? []
      : [`${at}: ${JSON.stringify(value)} is not among ${String(rule)}`],
  const: ({ value, rule, at }) => (value === rule ? [] : [`${at}: is not ${String(rule)}`]),
  anyOf: ({ value, rule, document, at }) => {
    const found = list(rule).map((one) => schemaErrors(value, asSchema(one), document, at));
    return found.some((errors) => errors.length === 0) ? [] : found.flat();
  },
  oneOf: (check) => keywords['anyOf']?.(check) ?? [],
  allOf: ({ value, rule, document, at }) =>
    list(rule).flatMap((one) => schemaErrors(value, asSchema(one), document, at)),
  required: ({ value, rule, at }) =>
    list(rule).flatMap((key) =>
      isObject(value) && !Object.hasOwn(value, String(key))
        ? [`${at}: ${String(key)} is missing`]
        : [],
    ),
  properties: ({ value, rule, document, at }) =>
    Object.entries(asSchema(rule)).flatMap(([key, one]) =>
      isObject(value) && Object.hasOwn(value, key)
        ? schemaErrors(value[key], asSchema(one), document, `${at}.${key}`)
        : [],
    ),
  additionalProperties: ({ value, rule, schema, document, at }) => {
    if (!isObject(value)) return [];
    const own = asSchema(schema['properties'] ?? {});
    const more = Object.entries(value).filter(([key]) => !Object.hasOwn(own, key));
    if (rule === true) return [];
    if (rule === false) return more.map(([key]) => `${at}: there is no ${key}`);
    return more.flatMap(([key, one]) =>
      schemaErrors(one, asSchema(rule), document, `${at}.${key}`),
    );
  },
  propertyNames: ({ value, rule, document, at }) =>
    isObject(value)
      ? Object.keys(value).flatMap((key) =>
          schemaErrors(key, asSchema(rule), document, `${at}:${key}`),
        )
      : [],
  items: ({ value, rule, document, at }) =>
    Array.isArray(value)
      ? value.flatMap((one, index) =>
          schemaErrors(one, asSchema(rule), document, `${at}[${index}]`),
        )
      : [],
  minItems: ({ value, rule, at }) => size(value, at, (length) => length >= Number(rule)),
  maxItems: ({ value, rule, at }) => size(value, at, (length) => length <= Number(rule)),
  minLength: ({ value, rule, at }) => size(value, at, (length) => length >= Number(rule)),
  maxLength: ({ value, rule, at }) => size(value, at, (length) => length <= Number(rule)),
  minimum: ({ value, rule, at }) =>
    typeof value !== 'number' || value >= Number(rule) ? [] : [`${at}: ${value} is too small`],
  maximum: ({ value, rule, at }) =>
    typeof value !== 'number' || value <= Number(rule) ? [] : [`${at}: ${value} is too large`],
  pattern: ({ value, rule, at }) =>
    typeof value !== 'string' || new RegExp(String(rule), 'u').test(value)
      ? []
      : [`${at}: ${value} is not of the form ${String(rule)}`],
};

export function resolveRef(ref: string, document: unknown): Schema {
  let current: unknown = document;
  for (const step of ref.replace(/^#\//, '').split('/')) {
    current = isObject(current) ? current[step] : undefined;
  }
  if (!isObject(current)) throw new Error(`${ref} leads nowhere`);
  return current;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function asSchema(value: unknown): Schema {
  if (isObject(value)) return value;
  throw new Error(`${String(value)} is no schema`);
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function size(value: unknown, at: string, holds: (length: number) => boolean): readonly string[] {
  const isSized = typeof value === 'string' || Array.isArray(value);
  return !isSized || holds(value.length) ? [] : [`${at}: a wrong length, ${value.length}`];
}

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
