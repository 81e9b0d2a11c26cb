/** Reads forms that are sent to the console, and refuses those from other sites (docs/operations/console.md). */
import { Data, Effect } from "effect"
import { type Headers, HttpServerRequest } from "effect/http"
import { logRefusal } from "../admin/AdminRequests.ts"

/** The form cannot be accepted, whatever its values are. */
export class FormRequestRefused extends Data.TaggedError("FormRequestRefused")<{
  readonly status: 403 | 413
  readonly message: string
}> {}

/**
 * Whether, according to the browser, a page of this origin sent the request. Browsers send `Sec-Fetch-Site` only over
 * TLS or to this machine, but `Origin` with every form.
 */
export const isSameOrigin = (headers: Headers.Headers, adminOrigin: string) => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin" || site === "none"
  const origin = headers["origin"]
  if (origin === undefined || !URL.canParse(origin)) return false
  // A proxy may replace the `Host` header.
  return origin === adminOrigin || new URL(origin).host === headers["host"]
}

/** Reads the fields of a form that a page of the console sent. */
export const readForm = Effect.fnUntraced(function* (adminOrigin: string) {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (!isSameOrigin(request.headers, adminOrigin)) {
    yield* logRefusal("another site has sent the form.")
    return yield* new FormRequestRefused({
      status: 403,
      message:
        "Another site has sent this form. If you have sent it here, the console does not know its address: set " +
        "ADMIN_URL to the address in your browser, without a path, and restart the service.",
    })
  }
  const text = yield* request.text.pipe(
    Effect.mapError(() =>
      new FormRequestRefused({ status: 413, message: "The form is longer than 1 MiB. Shorten it, and send it again." })
    ),
  )
  return new URLSearchParams(text)
})
