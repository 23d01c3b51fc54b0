/** The element of the page with this id. It stands in the same file as the script. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

export function make(name: string, className = '', ...children: (Node | string)[]): HTMLElement {
  const made = document.createElement(name);
  if (className !== '') made.className = className;
  made.append(...children);
  return made;
}

/** A group of buttons of which one is pressed. Answers how to press one from elsewhere. */
export function choiceOf<Choice extends string>(
  group: string,
  all: readonly Choice[],
  chosen: (choice: Choice) => void,
): (choice: Choice) => void {
  const buttons = [...document.querySelectorAll<HTMLElement>(`[data-${group}]`)];
  const press = (choice: Choice) => {
    for (const button of buttons) {
      button.setAttribute('aria-pressed', String(button.dataset[group] === choice));
    }
  };
  onButtons(group, (name) => {
    const choice = all.find((one) => one === name);
    if (choice === undefined) return;
    press(choice);
    chosen(choice);
  });
  return press;
}

/** Calls a function for the buttons of a group, each with its own name. */
export function onButtons(group: string, act: (name: string) => void): void {
  for (const button of document.querySelectorAll<HTMLElement>(`[data-${group}]`)) {
    button.addEventListener('click', () => act(button.dataset[group] ?? ''));
  }
}

/** A canvas as sharp as the screen; draws in pixels of the page. */
export function sharp(canvas: HTMLCanvasElement, height: number) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(100, canvas.clientWidth);
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext('2d');
  if (pen === null) throw new Error('this browser draws on no canvas');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = '12px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  return { pen, width, height, ratio };
}
