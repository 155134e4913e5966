/** What the demo invites people to try: one list for the terminal and for the page. */

/** A command line, and what it shows. */
export interface Trial {
  readonly title: string;
  /** The command, with `{origin}` and `{rangeway}` where the addresses go. */
  readonly command: string;
  /** One sentence. */
  readonly shows: string;
}

/** In the order in which they tell the story. */
export const trials: readonly Trial[] = [
  {
    title: 'Ask the origin for the last 100 bytes',
    command: 'curl -s -o /dev/null -D - -r -100 {origin}/range-test.mp4',
    shows: 'It answers 200 and sends the whole file, which takes it some 5 s.',
  },
  {
    title: 'Ask Rangeway for the same',
    command: 'curl -s -o /dev/null -D - -r -100 {rangeway}/range-test.mp4',
    shows:
      'It answers 206 with those 100 bytes: after some 5 s the first time, for the origin sends the whole; then at once, and Cache-Status says hit.',
  },
  {
    title: 'Ask for two ranges of a file that comes without a length',
    command: 'curl -s -r 0-22,-14 {rangeway}/report.csv',
    shows: 'Its first line and its last come as multipart/byteranges.',
  },
  {
    title: 'Start a download, stop it with Ctrl-C, and run the same line again',
    command: 'curl -C - -O {rangeway}/download.bin',
    shows: 'It goes on where it stopped. The origin itself, {origin}, cannot do that.',
  },
];

/** A text with the addresses filled in; an address is one like `http://127.0.0.1:8080`. */
export function withAddresses(text: string, addresses: { readonly origin: string; readonly rangeway: string }): string {
  return text.replaceAll('{origin}', addresses.origin).replaceAll('{rangeway}', addresses.rangeway);
}
