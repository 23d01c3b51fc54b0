import { headStarts } from '../../../../src/jobs/admission-order.js';
import { agingSeconds } from '../../../../src/jobs/waiting-list.js';
import { formatSeconds } from '../../../../src/units/durations.js';

/** The rules by which waiting jobs are ordered; each of them says which one put it behind another. */
export function QueueOrder() {
  return (
    <details class="order">
      <summary>How waiting jobs are ordered</summary>
      <ul>
        <li>
          By priority and age: {formatSeconds(agingSeconds)} of waiting count as much as one step of
          priority.
        </li>
        <li>
          Jobs that need much memory are up to {formatSeconds(headStarts.size)} ahead, as a gap for
          them is rare. Long jobs are up to {formatSeconds(headStarts.length)} ahead.
        </li>
        <li>
          The first job of a workload is {formatSeconds(headStarts.first)} ahead: what it measures
          tells how much the others need.
        </li>
        <li>A smaller job may start before its turn in a gap that does not delay the first.</li>
      </ul>
    </details>
  );
}
