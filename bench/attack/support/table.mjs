// The result as people read it: a line for each attack, then everything that was found.
const shownFindings = 20;
const columns = [
  'times',
  'lost',
  'doubled',
  'left',
  'other',
  'answers',
  'late',
  'slowest ms',
  'bare ms',
];

export function textOf(rows, withHead) {
  const head = [`${'attack'.padEnd(18)}${columns.map((name) => name.padStart(11)).join('')}`];
  return [...(withHead ? head : []), ...rows.flatMap((row) => [line(row), ...details(row)])].join(
    '\n',
  );
}

function line(row) {
  return `${row.name.padEnd(18)}${cells(row)
    .map((cell) => cell.padStart(11))
    .join('')}  ${verdictOf(row)}`;
}

function details({ broken, notes }) {
  const shown = broken.slice(0, shownFindings).map((finding) => `  broken: ${finding}`);
  const more = broken.length - shown.length;
  return [
    ...notes.map((note) => `  ${note}`),
    ...shown,
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

function cells({ times, lost, doubled, left, wrong, answers }) {
  const { slowestMs, bareSlowestMs } = answers;
  const counts = [times, lost.length, doubled.length, left.length, wrong.length];
  const speed = [answers.answers, answers.late, Math.round(slowestMs), Math.round(bareSlowestMs)];
  return counts.concat(speed).map(String);
}

/** Late is no broken promise of durability, and depends on the machine: it has a word of its own. */
function verdictOf({ broken, answers }) {
  if (broken.length > 0) return 'BROKEN';
  return answers.late > 0 ? 'held, late answers' : 'held';
}

export function markdownOf(rows, words) {
  const date = new Date().toISOString().slice(0, 10);
  const total = rows.reduce((sum, { seconds }) => sum + seconds, 0);
  return [
    `# Attacks on a server, ${date}`,
    '',
    `\`npm run attack${words.length > 0 ? ` -- ${words.join(' ')}` : ''}\`, ${Math.round(total / 60)} minutes; Node ${process.versions.node}, ${process.platform} ${process.arch}.`,
    '',
    'Lost: acknowledged work that is unknown, failed or unfinished. Doubled: work that ran twice. Left: processes, cgroups, sockets or files after the end. The owner asks `GET /jobs` ten times a second, on a new connection each time, whenever the server is up; late is an answer after more than 1 s, beside it the slowest answer of a bare server that was asked at the same moments.',
    '',
    `| attack | ${columns.join(' | ')} | verdict |`,
    `| --- |${columns.map(() => ' --- |').join('')} --- |`,
    ...rows.map((row) => `| ${row.title} | ${cells(row).join(' | ')} | ${verdictOf(row)} |`),
    '',
    ...rows.flatMap((row) => {
      const lines = details(row);
      return lines.length === 0
        ? []
        : [`- ${row.name}:`, ...lines.map((text) => `  - ${text.trim()}`)];
    }),
    '',
  ].join('\n');
}
