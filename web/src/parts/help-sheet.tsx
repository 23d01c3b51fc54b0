import { useRef } from 'preact/hooks';

const keys = [
  ['o', 'Overview'],
  ['g', 'Fleet'],
  ['n', 'New job'],
  ['p', 'Plan'],
  ['e', 'Estimate'],
  ['v', 'Compare two jobs'],
  ['/', 'Search the jobs'],
  ['j  k', 'Next, previous job of the list'],
  ['Enter', 'Open it'],
  ['c', 'Cancel the job that is open'],
  ['f', 'Follow its log, or stop to'],
  ['t', 'Colours: system, light, dark'],
  ['?', 'This sheet'],
  ['Esc', 'Close it'],
] as const;

let show: (() => void) | undefined;

export function openHelp(): void {
  show?.();
}

export function HelpSheet() {
  const dialog = useRef<HTMLDialogElement>(null);
  show = () => dialog.current?.showModal();
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split('  ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h2>What the words mean</h2>
      <p>
        The water around a hull is what a device says is used. Inside lie the reservations of jobs,
        each filled as far as the job really uses it. Their sum never passes the load line.
      </p>
      <p>
        <b>Measured</b> figures were read from the device. <b>Simulated</b> ones have no real memory
        behind them. <b>Estimated</b> ones are concluded from the others, and may be wrong. GiB are
        1024<sup>3</sup> bytes.
      </p>
      <form method="dialog" class="actions">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
