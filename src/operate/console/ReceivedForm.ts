/** Reads submitted forms, and refuses forms from other sites (docs/operations/console.md). */
import { Data, Effect } from "effect"
import { type Headers, HttpServerRequest } from "effect/http"
import { logRefusedRequest } from "../admin/AdminRequests.ts"

/** The form submission was refused for a reason unrelated to its values. */
export class FormRequestRefused extends Data.TaggedError("FormRequestRefused")<{
  readonly status: 403 | 413
  readonly message: string
}> {}

/**
 * Returns whether the browser states that the request comes from a page of this origin. Browsers send `Sec-Fetch-Site`
 * only over TLS or to the local machine, but send `Origin` with every form submission.
 */
export const isSameOrigin = (headers: Headers.Headers, adminOrigin: string) => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin" || site === "none"
  const origin = headers["origin"]
  if (origin === undefined || !URL.canParse(origin)) return false
  // The `Host` header alone is not enough, because a proxy may replace it.
  return origin === adminOrigin || new URL(origin).host === headers["host"]
}

/**
 * Reads the fields of a submitted form. Fails unless a page of the console (at `adminOrigin`) sent the form, so
 * that a form of another site cannot act in the admin's name. The session cookie alone does not prevent this: browsers
 * also send it with forms of other hosts in the same domain.
 */
export const readForm = Effect.fnUntraced(function* (adminOrigin: string) {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (!isSameOrigin(request.headers, adminOrigin)) {
    yield* logRefusedRequest("another site has sent the form.")
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
