/** The `ETag` of a body (D17, RFC 9110). */
import { createXXHash128 } from "hash-wasm"

const xxHash = await createXXHash128()

/** Returns a strong ETag: a hash of the uncompressed body. docs/decisions/0142-etag-hash.md */
export const computeEtag = (bytes: Uint8Array) => `"${xxHash.init().update(bytes).digest()}"`
