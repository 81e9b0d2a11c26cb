/** The `ETag` of a body (D17, RFC 9110). */
import { hash } from "node:crypto"

/** Returns a strong ETag: a hash of the uncompressed body. */
export const computeEtag = (bytes: Uint8Array) => `"${hash("sha1", bytes, "base64url")}"`
