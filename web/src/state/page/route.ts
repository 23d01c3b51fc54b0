/** The place on the page; it stands in the address, so that it can be kept and shared. */
export type Route =
  | { readonly name: 'overview' }
  | { readonly name: 'job'; readonly id: string }
  | { readonly name: 'fleet' }
  | { readonly name: 'submit'; readonly like: string | undefined }
  /** Jobs that are compared; those left out are still to be chosen. */
  | { readonly name: 'compare'; readonly ids: readonly string[] }
  | { readonly name: 'plan' }
  | { readonly name: 'estimate' }
  | { readonly name: 'lost' };

/**
 * @example
 * routeOf('#/job/12'); // { name: 'job', id: '12' }
 */
export function routeOf(hash: string): Route {
  const [first = '', second, third] = hash.replace(/^#?\/?/, '').split('/');
  switch (first) {
    case '':
      return { name: 'overview' };
    case 'job':
      return second === undefined || second === ''
        ? { name: 'lost' }
        : { name: 'job', id: decoded(second) };
    case 'fleet':
      return { name: 'fleet' };
    case 'submit':
      return { name: 'submit', like: second };
    case 'compare':
      return { name: 'compare', ids: [second, third].flatMap((id) => (id ? [decoded(id)] : [])) };
    case 'plan':
      return { name: 'plan' };
    case 'estimate':
      return { name: 'estimate' };
    default:
      return { name: 'lost' };
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
