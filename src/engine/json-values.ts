export type JsonObject = Readonly<Record<string, unknown>>;

/** A field as an object; one that is none is empty. */
export function objectIn(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.map(objectIn) : [];
}

export function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** A text or a number, as both are written for amounts. */
export function amountIn(value: unknown): string {
  return typeof value === 'number' ? String(value) : textIn(value);
}
