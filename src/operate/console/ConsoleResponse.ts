/** Creates the console's responses: pages, and redirects after form submissions. */
import { HttpServerResponse } from "effect/http"

/** Forms may be submitted only to the console itself. Pages are not stored, because they may contain customer data. */
const headers = {
  "cache-control": "no-store",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  // With "no-referrer", browsers would send forms with the origin "null".
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
}

/** Creates a response that contains an HTML page. */
export const makeHtmlResponse = (html: string, status = 200) =>
  HttpServerResponse.text(html, { status, contentType: "text/html; charset=utf-8", headers })

/** Creates the redirect after a form submission. The browser requests the new page with GET. */
export const makeRedirect = (location: string) =>
  HttpServerResponse.empty({ status: 303, headers: { ...headers, location } })
