/** Makes a tar archive (POSIX.1-1988 ustar) of small texts. */
export function makeTar(texts: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(texts).flatMap(([name, text]) => {
    const content = Buffer.from(text);
    const head = Buffer.alloc(512);
    head.write(name, 0);
    head.write('000644 \0', 100);
    head.write(`${content.length.toString(8).padStart(11, '0')} `, 124);
    head.write('00000000000 ', 136);
    head.write('        0', 148);
    head.write('ustar\x0000', 257);
    const sum = head.reduce((total, byte) => total + byte, 0);
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    return [head, content, Buffer.alloc((512 - (content.length % 512)) % 512)];
  });
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}
