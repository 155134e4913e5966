/** The colour scheme: that of the system, or one that the person has chosen, which the browser keeps. */

/** A choice. */
export type Theme = 'auto' | 'light' | 'dark';

/** The choices, in the order in which the switch goes through them. */
export const themes = ['auto', 'light', 'dark'] as const satisfies readonly Theme[];

const storageName = 'rangeway-theme';

/** Returns the kept choice. */
export function keptTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(storageName)) ?? 'auto';
  } catch {
    // Storage may be forbidden.
    return 'auto';
  }
}

/** Applies a choice and keeps it. */
export function applyTheme(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  try {
    if (theme === 'auto') localStorage.removeItem(storageName);
    else localStorage.setItem(storageName, theme);
  } catch {
    // It holds until the page is left.
  }
  for (const listener of listeners) listener();
}

const listeners = new Set<() => void>();

/** Calls a function whenever the colours change. Returns a function that ends that. */
export function onThemeChange(listener: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  listeners.add(listener);
  system.addEventListener('change', listener);
  return () => {
    listeners.delete(listener);
    system.removeEventListener('change', listener);
  };
}

/** Returns the value of a colour variable, such as `--sent`, in the colours that hold now. A canvas cannot use variables. */
export function colorOf(variable: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
