import { useState } from 'preact/hooks';
import type { Estimate, PartBytes } from '../../../../src/estimate/types.js';
import { Failure } from '../../../../src/failure.js';
import type { PlanOption } from '../../../../src/plan/fit/types.js';
import { asPython } from '../../../../src/plan/quantization/bits-and-bytes.js';
import {
  type Framework,
  frameworkNames,
  frameworks,
} from '../../../../src/plan/snippets/formats.js';
import { planLines } from '../../../../src/plan/snippets/plan-lines.js';
import { moduleRows } from '../../../../src/report/estimate-words.js';
import {
  optionCells,
  optionHeads,
  othersHeading,
  planVerdict,
  settingRows,
  settingsHeading,
  shardingText,
} from '../../../../src/report/plan-words.js';
import { percentWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import type { PlanDocument } from '../../api/types.js';
import { ChoiceField } from '../../parts/field.js';
import { ProvenanceTag } from '../../parts/tags.js';

/** The settings that fit, what is given up for them, and the alternatives: as `plimsoll plan` says it. */
export function PlanAnswer({ plan }: { plan: PlanDocument }) {
  const { budget, estimate, loading, sharding } = plan;
  const verdict = planVerdict(plan, budget);
  return (
    <section class="answer" aria-labelledby="plan-title">
      <h2 id="plan-title" class={`fits ${verdict.fits}`}>
        {verdict.sentence} <ProvenanceTag from="estimated" />
      </h2>
      <h3>{settingsHeading(plan)}</h3>
      <dl class="grid">
        {settingRows(plan.settings).map(([name, value, more]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {value} {more !== '' && <small>{more}</small>}
            </dd>
          </div>
        ))}
      </dl>
      {plan.givesUp.map((given) => (
        <p key={given} class="given-up">
          given up: {given}
        </p>
      ))}
      <h3>At the peak (estimated, by {estimate.method})</h3>
      <MemoryParts {...estimate} />
      <Others plan={plan} />
      <Notes notes={[...plan.notes, ...estimate.notes]} />
      {loading !== undefined && (
        <>
          <h3>Load it with</h3>
          <pre class="paste">{asPython(loading).trimEnd()}</pre>
        </>
      )}
      {sharding !== undefined && <pre class="paste">{shardingText(sharding).trimStart()}</pre>}
      {plan.fits && plan.settings.optimizer !== 'none' && <PlanLines plan={plan} />}
    </section>
  );
}

function Others({ plan }: { plan: PlanDocument }) {
  const { alternatives, budget, estimate } = plan;
  if (alternatives.length === 0) return null;
  const needs = [estimate, ...alternatives].map(({ peak }) => peak.leastCapacityBytes);
  const widest = Math.max(budget.memoryBytes, ...needs) * 1.02;
  const heading = othersHeading(plan);
  return (
    <>
      <h3 id="others-title">{heading}</h3>
      <div class="scroll" tabIndex={0} role="region" aria-labelledby="others-title">
        <table class="options">
          <caption class="aside">{heading}</caption>
          <thead>
            <tr>
              {optionHeads.map((head) => (
                <th key={head} scope="col" class={figures.has(head) ? 'number' : ''}>
                  {head}
                </th>
              ))}
              <th scope="col">against {formatBytes(budget.memoryBytes)}</th>
            </tr>
          </thead>
          <tbody>
            {alternatives.map((option, index) => (
              <OptionRow key={index} option={option} plan={plan} widest={widest} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const figures: ReadonlySet<string> = new Set(['batch', 'needs', 'time']);

function OptionRow(props: { option: PlanOption; plan: PlanDocument; widest: number }) {
  const { option, plan, widest } = props;
  const { budget } = plan;
  const [fits, batch, needs, time, how] = optionCells(option, plan.estimate);
  const needed = option.peak.leastCapacityBytes;
  return (
    <tr>
      <td class={`fits ${fits}`}>{fits}</td>
      <td class="number">{batch}</td>
      <td class="number">{needs}</td>
      <td class="number">{time}</td>
      <th scope="row">
        {how}
        {option.givesUp.map((one) => (
          <small key={one}>gives up: {one}</small>
        ))}
      </th>
      <td class="bar-cell">
        <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect
            class={needed > budget.memoryBytes ? 'sunk' : 'measured'}
            y="1"
            width={(needed / widest) * 100}
            height="8"
          />
          <rect class="limit" x={(budget.memoryBytes / widest) * 100} width="0.8" height="10" />
        </svg>
      </td>
    </tr>
  );
}

/** What fills the device at the peak: a bar, and each part with its share. */
export function MemoryParts({ breakdown, peak }: Pick<Estimate, 'breakdown' | 'peak'>) {
  const whole = peak.deviceBytes;
  let before = 0;
  const segments = breakdown.map(({ part, bytes }) => {
    const from = before;
    before += bytes;
    return { part, bytes, from };
  });
  return (
    <>
      <svg class="bar tall" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        {segments.map(({ part, bytes, from }) => (
          <rect
            key={part}
            class={`part-${part}`}
            x={(from / whole) * 100}
            width={(bytes / whole) * 100}
            height="10"
          />
        ))}
      </svg>
      <table class="parts">
        <caption class="aside">What the memory is for</caption>
        <tbody>
          {breakdown.map((entry) => (
            <PartRows key={entry.part} entry={entry} whole={whole} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function PartRows({ entry, whole }: { entry: PartBytes; whole: number }) {
  const { part, bytes } = entry;
  return (
    <>
      <tr>
        <th scope="row">
          <i class={`swatch part-${part}`} />
          {part}
        </th>
        <td class="number">{formatBytes(bytes)}</td>
        <td class="number">{percentWords((bytes / whole) * 100, 1)}</td>
      </tr>
      {moduleRows(entry).map((module) => (
        <tr key={module.name} class="module">
          <th scope="row">{module.name}</th>
          <td class="number">{formatBytes(module.bytes)}</td>
          <td />
        </tr>
      ))}
    </>
  );
}

/** What an answer rests on. */
export function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}

/** The plan as lines to paste, for the framework that is chosen. */
function PlanLines({ plan }: { plan: PlanDocument }) {
  const [chosen, setChosen] = useState<Framework>('trainer');
  const { text, beside } = linesFor(chosen, plan);
  return (
    <>
      <h3>Ready to paste</h3>
      <div class="fields">
        <ChoiceField
          label="For"
          problem={undefined}
          value={chosen}
          set={(value) => setChosen(frameworks.find((one) => one === value) ?? 'trainer')}
          choices={frameworks.map((one) => [one, frameworkNames[one]] as const)}
        />
      </div>
      <pre class="paste">{text}</pre>
      {beside !== undefined && <p>{beside}</p>}
    </>
  );
}

/** What a framework cannot do is said in its place. */
function linesFor(framework: Framework, plan: PlanDocument): { text: string; beside?: string } {
  try {
    return planLines(framework, plan, plan.loading);
  } catch (error) {
    if (error instanceof Failure) return { text: error.fact };
    throw error;
  }
}
