/** What the demo prints when it is ready: where it is, and what to try. */

import { styleText } from 'node:util';
import { trials, withAddresses } from './trials.ts';

/** The text, its last line ended; with `colors` the lines to copy stand out. */
export function formatInvitation(
  addresses: { readonly origin: string; readonly rangeway: string },
  colors: boolean,
): string {
  const paint = (text: string): string => (colors ? styleText('cyan', text, { validateStream: false }) : text);
  const invitation = [
    `Rangeway  ${paint(addresses.rangeway)}  open it in a browser: a video to seek in`,
    `origin    ${paint(addresses.origin)}  the same files from a slow server that sends whole files only`,
    ...trials.flatMap(({ title, command, shows }) => [
      '',
      `${title}:`,
      `  ${paint(withAddresses(command, addresses))}`,
      `  ${withAddresses(shows, addresses)}`,
    ]),
    '',
    'Ctrl-C stops both. What they are asked:',
    '',
  ];
  return `${invitation.join('\n')}\n`;
}
