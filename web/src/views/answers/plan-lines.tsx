import { useState } from 'preact/hooks';
import { Failure } from '../../../../src/failure.js';
import {
  type Framework,
  frameworkNames,
  frameworks,
} from '../../../../src/plan/snippets/formats.js';
import { planLines } from '../../../../src/plan/snippets/plan-lines.js';
import type { PlanDocument } from '../../api/types.js';
import { ChoiceField } from '../../parts/field.js';

/** The plan as lines to paste, for the framework that is chosen. */
export function PlanLines({ plan }: { plan: PlanDocument }) {
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
