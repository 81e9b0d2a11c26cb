/** Responses from the console: pages, and redirects after a form. */
import { HttpServerResponse } from "effect/http"

/** Forms may lead the browser only to the console itself. Pages may contain customers' data, so they are not stored. */
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

/** Creates a response with a page. */
export const makeHtmlResponse = (html: string, status = 200) =>
  HttpServerResponse.text(html, { status, contentType: "text/html; charset=utf-8", headers })

/** Creates the redirect after a form, which makes the browser request the page with GET. */
export const makeRedirect = (location: string) =>
  HttpServerResponse.empty({ status: 303, headers: { ...headers, location } })
