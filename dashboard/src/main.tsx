/** Starts the page. */

import { render } from 'preact';
import { App } from './app.tsx';
import { applyTheme, keptTheme } from './theme.ts';

applyTheme(keptTheme());
const place = document.getElementById('app');
if (place !== null) render(<App />, place);
