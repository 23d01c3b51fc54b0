/**
 * The version of every JSON document that commands print and the server answers, unless the document
 * has one of its own. It rises when a field changes its meaning or goes away, not when one is added.
 */
export const documentVersion = 1;

/**
 * A document with its version, unless it has one of its own.
 *
 * @example
 * JSON.stringify(versioned({ devices: [] })); // '{"devices":[],"schema":1}'
 */
export function versioned<Document extends object>(
  document: Document,
): Document & { readonly schema: number } {
  return { ...document, schema: versionOf(document) };
}

function versionOf(document: object): number {
  return 'schema' in document && typeof document.schema === 'number'
    ? document.schema
    : documentVersion;
}
