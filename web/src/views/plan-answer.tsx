import type { Plan, PlanOption } from '../../../src/plan/fit/types.js';
import {
  batchWords,
  costWords,
  neededBytes,
  optionWords,
  type PlanBudgetWords,
  planVerdict,
  settingRows,
} from '../../../src/report/plan-words.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { ProvenanceTag } from '../parts/tags.js';
import { EstimateFigures } from './estimate-answer.js';

/** What `POST /plan` answers. */
export interface PlanDocument extends Plan {
  readonly budget: PlanBudgetWords;
}

const alternativesShown = 12;

/** The settings that fit, what is given up for them, and the alternatives. */
export function PlanAnswer({ plan }: { plan: PlanDocument }) {
  const { budget, settings, alternatives } = plan;
  const verdict = planVerdict(plan, budget);
  const shown = alternatives.slice(0, alternativesShown);
  const needs = shown.map((option) => neededBytes(option, budget));
  const widest = Math.max(budget.memoryBytes, neededBytes(plan.estimate, budget), ...needs) * 1.02;
  return (
    <section class="answer" aria-labelledby="plan-title">
      <h2 id="plan-title" class={`fits ${verdict.fits}`}>
        {verdict.sentence} <ProvenanceTag from="estimated" />
      </h2>
      <dl class="grid">
        {settingRows(settings).map(([name, value, more]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {value} {more !== '' && <small>{more}</small>}
            </dd>
          </div>
        ))}
      </dl>
      {shown.length > 0 && (
        <>
          <h3>Other settings</h3>
          <div class="scroll" tabIndex={0} role="region" aria-label="Other settings">
            <table class="options">
              <caption class="aside">What other settings need</caption>
              <thead>
                <tr>
                  <th scope="col">Settings</th>
                  <th scope="col" class="number">
                    Needs
                  </th>
                  <th scope="col">Against the {formatBytes(budget.memoryBytes)}</th>
                  <th scope="col" class="number">
                    Time
                  </th>
                </tr>
              </thead>
              <tbody>
                {shown.map((option, index) => (
                  <OptionRow
                    key={index}
                    option={option}
                    needed={needs[index] ?? 0}
                    budget={budget.memoryBytes}
                    widest={widest}
                  />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      <h3>At the peak</h3>
      <EstimateFigures
        estimate={plan.estimate}
        notes={[...plan.notes, ...plan.estimate.notes]}
        contextBytes={budget.contextBytes}
      />
    </section>
  );
}

function OptionRow(props: { option: PlanOption; needed: number; budget: number; widest: number }) {
  const { option, needed, budget, widest } = props;
  const line = (budget / widest) * 100;
  return (
    <tr>
      <th scope="row">
        {batchWords(option.settings)}, {optionWords(option.settings)}{' '}
        {option.givesUp.length > 0 && <small>{option.givesUp.join('; ')}</small>}
      </th>
      <td class="number">{formatBytes(needed)}</td>
      <td class="bar-cell">
        <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect
            class={needed > budget ? 'sunk' : 'measured'}
            y="1"
            width={(needed / widest) * 100}
            height="8"
          />
          <rect class="limit" x={line} width="0.8" height="10" />
        </svg>
      </td>
      <td class="number">{costWords(option.relativeCost)}</td>
    </tr>
  );
}
