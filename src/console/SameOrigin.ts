/** Refuses forms that another site has sent (docs/operations/console.md). */
import type { Headers } from "effect/http"

/**
 * Whether the browser says that a page of this origin has sent the request. Browsers send `Sec-Fetch-Site` only over
 * TLS and to this machine, and `Origin` with every form.
 */
export const isSameOrigin = (headers: Headers.Headers, adminOrigin: string) => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin" || site === "none"
  const origin = headers["origin"]
  if (origin === undefined || !URL.canParse(origin)) return false
  // A proxy may replace the `Host` header.
  return origin === adminOrigin || new URL(origin).host === headers["host"]
}
