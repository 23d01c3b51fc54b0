/** Text that is already HTML. Everything else that enters a template is escaped. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type Content = string | number | Markup | undefined | false | readonly Content[];

/**
 * Writes HTML; what is put in is escaped unless it is itself `Markup`.
 * Attribute values must stand in double quotes.
 *
 * @example
 * html`<td title="${process.name}">${process.name}</td>`;
 */
export function html(pieces: TemplateStringsArray, ...values: readonly Content[]): Markup {
  let text = pieces[0] ?? '';
  values.forEach((value, index) => {
    text += render(value) + (pieces[index + 1] ?? '');
  });
  return new Markup(text);
}

function render(value: Content): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map(render).join('');
  return escapeHtml(String(value));
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Control and direction characters go too: a name must not reorder the text around it. */
function escapeHtml(text: string): string {
  return text
    .replace(/\p{Cs}/gu, '\uFFFD')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/[&<>"']/g, (character) => entities[character] ?? '');
}

/** Keeps a figure and its unit on one line. */
export function unbroken(text: string): string {
  return text.replace(/(\d) (?=(?:%|[KMG]iB|B|s|min|h|d)(?!\w))/g, '$1\u00A0');
}
