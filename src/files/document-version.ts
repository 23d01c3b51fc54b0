/**
 * The version of every JSON document that commands print and the server answers, unless the document
 * has one of its own. It rises when a field changes its meaning or goes away, not when one is added.
 */
export const documentVersion = 1;

/**
 * A document with its version first.
 *
 * @example
 * JSON.stringify(versioned({ devices: [] })); // '{"schema":1,"devices":[]}'
 */
export function versioned<Document extends object>(
  document: Document,
): { readonly schema: number } & Document {
  return { schema: documentVersion, ...document };
}
