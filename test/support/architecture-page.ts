import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ImportGraph, importGraph } from './import-graph.js';
import { projectFiles, root } from './project-files.js';

/** A way that data takes: what does each step, by file and name. */
interface Flow {
  readonly title: string;
  readonly steps: readonly (readonly [file: string, name: string])[];
}

const flows: readonly Flow[] = [
  {
    title: 'Sample to alert',
    steps: [
      ['src/device/discover.ts', 'discoverDevices'],
      ['src/watch/watch.ts', 'watch'],
      ['src/watch/sampling/sampler.ts', 'runSampler'],
      ['src/watch/watch.ts', 'createObserver'],
      ['src/watch/history/history.ts', 'createHistory'],
      ['src/watch/diagnosis/diagnose.ts', 'createDiagnosis'],
      ['src/watch/alerts/alerts.ts', 'createAlerts'],
      ['src/watch/watch.ts', 'Delivery'],
    ],
  },
  {
    title: 'Workload to estimate',
    steps: [
      ['src/plan/answers/answer-estimate.ts', 'answerEstimate'],
      ['src/estimate/estimate.ts', 'estimate'],
      ['src/model/read-model.ts', 'readModel'],
      ['src/estimate/trace/python-trace.ts', 'pythonTrace'],
      ['src/estimate/trace/traced-estimate.ts', 'tracedEstimate'],
      ['src/estimate/formula/formula-estimate.ts', 'formulaEstimate'],
      ['src/estimate/allocator/caching-allocator.ts', 'createAllocator'],
    ],
  },
  {
    title: 'Job to attempt',
    steps: [
      ['src/jobs/daemon/submission/submission.ts', 'newJobOf'],
      ['src/jobs/daemon/submission/need.ts', 'judgeNeed'],
      ['src/jobs/fit-verdict.ts', 'judgeFit'],
      ['src/jobs/daemon/scheduler.ts', 'Scheduler'],
      ['src/jobs/admission.ts', 'admit'],
      ['src/jobs/placement.ts', 'place'],
      ['src/jobs/ledger.ts', 'Ledger'],
      ['src/engine/local/local-engine.ts', 'localEngine'],
      ['src/run/supervise.ts', 'superviseRun'],
      ['src/run/open-attempt.ts', 'openAttempt'],
    ],
  },
  {
    title: 'Failure to recovery',
    steps: [
      ['src/run/recognise/scanner.ts', 'createScanner'],
      ['src/run/attempt.ts', 'concludeOutOfMemory'],
      ['src/run/bridge/coordinator.ts', 'Coordinator'],
      ['src/run/ladder/in-process.ts', 'decideStep'],
      ['src/run/ladder/climb.ts', 'climb'],
      ['src/run/supervise.ts', 'nothingLeft'],
      ['src/jobs/corrections.ts', 'correctEstimate'],
    ],
  },
];

/** docs/architecture.md as the code has it now. */
export function architecturePage(): string {
  const sources = new Map(
    projectFiles()
      .filter((path) => /^src\/.*\.ts$/.test(path))
      .filter((path) => !/(\.(test|suite)|-for-tests)\.ts$/.test(path))
      .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
  );
  const rows = folderRows();
  const edges = reduced(folderGraph(importGraph(sources)));
  return `# Architecture

Made from the code: \`UPDATE_ARCHITECTURE=1 npx vitest run test/architecture.test.ts\` writes it again, and a test fails when it is out of date.

## The folders

An arrow is an import. Imports run one way; an arrow that follows from others is left out.

\`\`\`mermaid
flowchart TD
${[...edges].flatMap(([from, targets]) => targets.map((to) => `  ${from} --> ${to}`)).join('\n')}
\`\`\`

| folder | what it is |
| --- | --- |
${rows.map(([folder, what]) => `| \`src/${folder}/\` | ${what} |`).join('\n')}

Beside it: \`web/\` is the dashboard, \`python/\` the package inside PyTorch processes.

${flows.map((flow) => flowText(flow, sources)).join('\n\n')}
`;
}

/** The folders of \`src/\` in the order and the words of CONTRIBUTING.md. */
function folderRows(): readonly (readonly [folder: string, what: string])[] {
  const text = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
  return [...text.matchAll(/^\| `src\/([\w-]+)\/` \| (.*) \|$/gm)].map(
    ([, folder = '', what = '']) => [folder, what] as const,
  );
}

function folderGraph(graph: ImportGraph): Map<string, Set<string>> {
  const folders = new Map<string, Set<string>>();
  for (const [from, targets] of graph) {
    const folder = folderOf(from);
    if (folder === undefined) continue;
    const known = folders.get(folder) ?? new Set();
    folders.set(folder, known);
    for (const target of targets) {
      const to = folderOf(target);
      if (to !== undefined && to !== folder) known.add(to);
    }
  }
  return folders;
}

function folderOf(path: string): string | undefined {
  return /^src\/([\w-]+)\//.exec(path)?.[1];
}

/** Without what follows from other arrows. */
function reduced(graph: ReadonlyMap<string, ReadonlySet<string>>): ReadonlyMap<string, string[]> {
  const reaches = (from: string, to: string): boolean =>
    [...(graph.get(from) ?? [])].some((next) => next === to || reaches(next, to));
  return new Map(
    [...graph]
      .toSorted(([one], [other]) => one.localeCompare(other))
      .map(([from, targets]) => [
        from,
        [...targets]
          .filter((to) => ![...targets].some((other) => other !== to && reaches(other, to)))
          .toSorted(),
      ]),
  );
}

function flowText({ title, steps }: Flow, sources: ReadonlyMap<string, string>): string {
  const lines = steps.map(([file, name], index) => {
    const text = sources.get(file);
    if (text === undefined) throw new Error(`${title}: there is no ${file}`);
    return `${index + 1}. \`${name}\` ([${file}](../${file})): ${firstSentence(text, name, file)}`;
  });
  return `## ${title}\n\n${lines.join('\n')}`;
}

/** The first sentence of the comment above a function, class or constant of a file. */
function firstSentence(text: string, name: string, file: string): string {
  const at = text.search(
    new RegExp(`^(?:export )?(?:async )?(?:function|class|const) ${name}\\b`, 'm'),
  );
  if (at === -1) throw new Error(`${file} has no ${name}`);
  const comment = /\/\*\*((?:(?!\*\/).)*)\*\/\s*$/s.exec(text.slice(0, at))?.[1];
  if (comment === undefined) throw new Error(`${file}: ${name} has no comment`);
  const words = comment
    .replaceAll(/^\s*\*? ?/gm, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return /^.*?[.](?=\s|$)/.exec(words)?.[0] ?? words;
}
