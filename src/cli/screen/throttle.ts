export interface Throttle {
  /** Acts now, or once the time is over if it acted a short while ago. */
  ask(): void;
  cancel(): void;
}

/** Acts at most once in each `everyMs`, and never forgets the last time it was asked. */
export function throttle(act: () => void, everyMs: number): Throttle {
  let timer: NodeJS.Timeout | undefined;
  let asked = false;
  const run = () => {
    asked = false;
    timer = setTimeout(() => {
      timer = undefined;
      if (asked) run();
    }, everyMs);
    // Drawing must not keep the process alive once there is nothing left to draw.
    timer.unref();
    act();
  };
  return {
    ask() {
      asked = true;
      if (timer === undefined) run();
    },
    cancel() {
      clearTimeout(timer);
      timer = undefined;
      asked = false;
    },
  };
}
