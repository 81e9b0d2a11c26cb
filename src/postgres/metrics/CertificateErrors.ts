/** Explains connection failures based on the error codes of Node and OpenSSL, which are the same in Deno. */
import { Predicate } from "effect"

/** Returns the first error code in a chain of causes, such as `ECONNREFUSED` or `CERT_HAS_EXPIRED`. */
const findCode = (error: unknown): string | undefined => {
  if (!Predicate.isObject(error)) return undefined
  if (Predicate.hasProperty(error, "code") && Predicate.isString(error.code)) return error.code
  return Predicate.hasProperty(error, "cause") ? findCode(error.cause) : undefined
}

/**
 * Explains a certificate error and how to fix it, or returns undefined for any other error. Behind a corporate proxy,
 * this is usually the first error that users see.
 */
export const describeCertificateError = (error: unknown) => {
  const code = findCode(error) ?? ""
  return /CERT|SIGNATURE|^ERR_TLS/.test(code)
    ? `its certificate is not trusted (${code}). If a proxy or an authority of your own has signed it, set ` +
      "NODE_EXTRA_CA_CERTS to the authority's file"
    : undefined
}
