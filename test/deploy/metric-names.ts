/** A metric and the labels that an expression asks of it. */
export interface AskedMetric {
  readonly name: string;
  readonly labels: readonly string[];
}

/** Every metric that an expression of Prometheus names; what looks like one is one. */
export function metricsIn(expression: string): readonly AskedMetric[] {
  const found = [...expression.matchAll(/\b((?:plimsoll|process)_[a-z_]+)(?:\{([^}]*)\})?/g)];
  return found.map(([, name = '', selectors = '']) => ({
    name,
    labels: [...selectors.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map((match) => match[1] ?? ''),
  }));
}

/** What a page of metrics holds: each series by name, with the labels it has. */
export function metricsOn(page: string): ReadonlyMap<string, ReadonlySet<string>> {
  const series = new Map<string, Set<string>>();
  for (const line of page.split('\n')) {
    const [, name, labels = ''] = /^([a-z_]+)(?:\{(.*)\})? [^ ]+$/i.exec(line) ?? [];
    if (name === undefined) continue;
    const known = series.get(name) ?? new Set();
    for (const label of labels.matchAll(/(\w+)="/g)) known.add(label[1] ?? '');
    series.set(name, known);
  }
  return series;
}
