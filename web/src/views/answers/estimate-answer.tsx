import type { Estimate } from '../../../../src/estimate/types.js';
import {
  type Answer,
  answerMeaning,
  answersOf,
  makesItFit,
  peakHeading,
  recommendedWords,
  savingsBasis,
  settingOptions,
  verdictOf,
} from '../../../../src/report/estimate-words.js';
import { serveText } from '../../../../src/report/text/serve-room-text.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import type { EstimateDocument } from '../../api/types.js';
import { ProvenanceTag } from '../../parts/tags.js';
import { MemoryParts } from './memory-parts.js';
import { Notes } from './notes.js';

/** The memory of a workload, and whether the card has it, in the words of `plimsoll estimate`. */
export function EstimateAnswer(props: { estimate: EstimateDocument; infers: boolean }) {
  const { estimate } = props;
  const { gpu } = estimate;
  // Of a training the plan tells it, with the memory of the whole step.
  const recommended = props.infers ? estimate.recommendedQuantization : undefined;
  const verdict = verdictOf(estimate, gpu);
  return (
    <section class="answer" aria-labelledby="estimate-title">
      <h2 id="estimate-title" class={`fits ${verdict.fits}`}>
        {verdict.sentence} <ProvenanceTag from="estimated" />
      </h2>
      {estimate.serve !== undefined && <pre class="serve-room">{serveText(estimate.serve)}</pre>}
      <h3>{peakHeading(estimate, gpu)}</h3>
      <Answers estimate={estimate} answers={answersOf(estimate, gpu)} card={gpu.capacityBytes} />
      <h3>At the peak</h3>
      <MemoryParts {...estimate} />
      <Phases estimate={estimate} />
      {recommended !== undefined && <p class="recommended">{recommendedWords(recommended)}</p>}
      <Savings estimate={estimate} />
      <Notes notes={estimate.notes} />
    </section>
  );
}

/** The four answers, each against the card; the shade is where the truth lies. */
function Answers(props: { estimate: Estimate; answers: readonly Answer[]; card: number }) {
  const { estimate, answers, card } = props;
  const ends = answers.map(({ bytes, interval }) => Math.max(bytes, interval?.highBytes ?? 0));
  const widest = Math.max(card, ...ends) * 1.01;
  const share = (bytes: number): number => (bytes / widest) * 100;
  return (
    <table class="need">
      <caption class="aside">The peak, against the memory of the card</caption>
      <tbody>
        {answers.map((answer) => (
          <tr key={answer.name}>
            <th scope="row">{answer.name}</th>
            <td class="bar-cell">
              <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect
                  class={answer.bytes > card ? 'sunk' : 'measured'}
                  width={share(answer.bytes)}
                  height="10"
                />
                {answer.interval !== undefined && (
                  <rect
                    class="interval"
                    x={share(answer.interval.lowBytes)}
                    width={share(answer.interval.highBytes - answer.interval.lowBytes)}
                    y="2.5"
                    height="5"
                  />
                )}
                <rect class="limit" x={share(card)} width="0.8" height="10" />
              </svg>
            </td>
            <td class="number">{formatBytes(answer.bytes)}</td>
            <td class="meaning">{answerMeaning(estimate, answer)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Phases({ estimate: { phases = [] } }: { estimate: Estimate }) {
  if (phases.length === 0) return null;
  return (
    <>
      <h3>By phase, reserved and allocated</h3>
      <table class="parts">
        <caption class="aside">What each phase takes</caption>
        <tbody>
          {phases.map(({ phase, reservedBytes, allocatedBytes, makesPeak }) => (
            <tr key={phase}>
              <th scope="row">{phase}</th>
              <td class="number">{formatBytes(reservedBytes)}</td>
              <td class="number">{formatBytes(allocatedBytes)}</td>
              <td>{makesPeak ? 'makes the peak' : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** What other settings would save, one at a time. */
function Savings({ estimate }: { estimate: EstimateDocument }) {
  const { savings = [], gpu } = estimate;
  if (savings.length === 0) return null;
  return (
    <>
      <h3 id="savings-title">Ways to save memory {savingsBasis(savings)}</h3>
      <div class="scroll" tabIndex={0} role="region" aria-labelledby="savings-title">
        <table class="savings">
          <caption class="aside">What other settings would save</caption>
          <thead>
            <tr>
              <th scope="col">change</th>
              <th scope="col" class="number">
                saves
              </th>
              <th scope="col" class="number">
                least capacity
              </th>
              <th scope="col">option</th>
            </tr>
          </thead>
          <tbody>
            {savings.map((saving) => (
              <tr key={saving.change}>
                <th scope="row">{saving.change}</th>
                <td class="number">{formatBytes(saving.savesBytes)}</td>
                <td class="number">{formatBytes(saving.leastCapacityBytes)}</td>
                <td>
                  <code>{settingOptions(saving.settings)}</code>{' '}
                  {makesItFit(saving, estimate, gpu) && <b class="then-fits">then it fits</b>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
