/** Says for people why there is no connection to an engine, where the words of OpenSSL, Node or the engine do not. */

/** Sentences by the code of an error; codes of one kind have one sentence. */
const sentences: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(?:_LOCALLY)?)|(?:DEPTH_ZERO_)?SELF_SIGNED_CERT(?:_IN_CHAIN)?)$/,
    'its certificate is not signed by an authority that is trusted here (store.caFile names one)',
  ],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'its certificate is for another name than the one it is reached by'],
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet'],
  [
    /^ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED$/,
    'it requires a client certificate (store.certFile and store.keyFile)',
  ],
  [
    /^ERR_SSL_(?:TLSV1|SSLV3|SSL)(?:_TLSV1|_SSLV3)?_ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_\w+|UNSUPPORTED_CERTIFICATE)$/,
    'it does not accept the client certificate (store.certFile)',
  ],
  [/^WRONGPASS$/, 'it does not know this user and password (store.username and store.password)'],
  [/^NOAUTH$/, 'it asks for a password (store.password, and store.username where it has users)'],
];

/** Returns why a connection has failed, as the rest of a sentence. */
export function connectionReason(error: unknown): string {
  const { message = String(error), code, name } = error as Partial<Error & { readonly code: unknown }>;
  const [word] = /^(?:WRONGPASS|NOAUTH)\b/.exec(message) ?? [];
  const sign = word ?? String(code ?? '');
  return sentences.find(([pattern]) => pattern.test(sign))?.[1] ?? (message || name || 'unknown');
}
