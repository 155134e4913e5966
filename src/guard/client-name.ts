/** The names by which clients are told apart where it is counted what each of them takes. */

/** All who are not told apart: peers of a Unix socket, and those of whom a trusted proxy does not tell the address. */
const unknownClient = 'unknown';

/**
 * The name of a client: its IPv4 address; of IPv6 the first 64 bits, for whoever has one address of such a network has all of
 * them (RFC 4291 §2.5.4, RFC 6177). Clients without an address share one name, as those do whom a proxy hides that is not
 * trusted: a limit that cannot tell clients apart holds for all of them together, and never for none.
 */
export function clientName(address: string): string {
  if (address === '') return unknownClient;
  return address.includes(':') ? networkOf(address) : address;
}

/** The first four groups, each in its shortest form, whatever form the address is written in (RFC 5952). */
function networkOf(address: string): string {
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':');
    // An IPv4 address at the end stands for two groups.
    const lastCount = last.length + (tail.includes('.') ? 1 : 0);
    const absent = Math.max(0, 8 - groups.length - lastCount);
    for (let index = 0; index < absent; index += 1) groups.push('0');
    groups.push(...last);
  }
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
