import { useState } from 'preact/hooks';
import { Failure } from '../../../../src/failure.js';
import {
  type Framework,
  frameworkNames,
  frameworks,
} from '../../../../src/plan/snippets/formats.js';
import { planSnippet } from '../../../../src/plan/snippets/plan-snippet.js';
import type { PlanDocument } from '../../api/types.js';
import { ChoiceField } from '../../parts/field.js';

/** The settings as lines to paste, for the framework that is chosen. */
export function PlanLines({ plan }: { plan: PlanDocument }) {
  const [chosen, setChosen] = useState<Framework>('trainer');
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
      <pre class="paste">{linesFor(chosen, plan)}</pre>
    </>
  );
}

/** What a framework cannot do is said in its place. */
function linesFor(framework: Framework, { settings, loading }: PlanDocument): string {
  try {
    return planSnippet(framework, settings, loading);
  } catch (error) {
    if (error instanceof Failure) return error.fact;
    throw error;
  }
}
