/** Parses where a secret is. Commands need this without the schemas. */

/** Where a secret is. */
export type SecretSource = { readonly kind: 'env' | 'file'; readonly name: string };

/** The pattern of a source: a variable of the environment, or a file. */
export const secretSourcePattern = /^(?:env:[A-Za-z_]\w*|file:.+)$/;

/** Parses `env:NAME` or `file:PATH`. Returns undefined for other text, which may be the secret itself. */
export function parseSecretSource(text: string): SecretSource | undefined {
  if (!secretSourcePattern.test(text)) return undefined;
  const colon = text.indexOf(':');
  return { kind: text.startsWith('env:') ? 'env' : 'file', name: text.slice(colon + 1) };
}
