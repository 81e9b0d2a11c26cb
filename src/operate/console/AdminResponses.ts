/**
 * Behavior that all responses on the admin port share: headers (§9.1.2, D12, D14), and errors for requests that no
 * route handles.
 */
import { Cause, Effect, Schema } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { AdminRequestId } from "../admin/AdminAccess.ts"
import { UnsupportedContentEncoding } from "../admin/AdminErrors.ts"
import { compressedBodyRefusal, isCompressed } from "../../api/Compression.ts"
import { type ProtocolError, protocolErrorMessages, type ProtocolRejection } from "../../api/ProtocolErrors.ts"
import { isDecodableUrl } from "../../api/RequestTarget.ts"
import { undecodableUrlMessage } from "../../api/UnroutedResponses.ts"
import { BadRequest, InternalError, NotFound, redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { resolveRequestId } from "../../contract/rules/RequestIds.ts"
import { logDefectAsInternalError } from "../../contract/rules/QueryValidation.ts"

/**
 * Returns the error message for an unknown path. For a HEAD request, the message mentions GET, so that the
 * Content-Length header equals that of a GET response.
 */
const describeUnknownPath = (method: string, url: string) =>
  `There is no endpoint ${method === "HEAD" ? "GET" : method.slice(0, 100)} ${url.slice(0, 200)}. ` +
  "/v1/openapi.json lists all endpoints."

/** Describes the error response for a request that Node cannot parse or that exceeds a limit. */
export const describeProtocolError = ({ request, status }: ProtocolRejection): ProtocolError =>
  status === "unknown method"
    ? {
      status: 404,
      code: "not_found",
      message: redactApiKeys(describeUnknownPath(request?.method ?? "", request?.target ?? "")),
      headers: {},
    }
    : { status, code: "bad_request", message: protocolErrorMessages[status], headers: {} }

const encode = Schema.encodeSync(Schema.Union([BadRequest, InternalError, NotFound, UnsupportedContentEncoding]))

const makeErrorResponse = (status: number, error: Parameters<typeof encode>[0], request_id: string) =>
  HttpServerResponse.jsonUnsafe({ ...encode(error), request_id }, { status })

/** Returns the error response for a request that must not reach any route. Returns undefined for all other requests. */
const refuse = ({ headers, url }: HttpServerRequest.HttpServerRequest, request_id: string) => {
  if (!isDecodableUrl(url)) {
    return makeErrorResponse(400, new BadRequest({ error: { message: undecodableUrlMessage } }), request_id)
  }
  if (!isCompressed(headers["content-encoding"])) return undefined
  const error = new UnsupportedContentEncoding({ error: { message: compressedBodyRefusal.message } })
  return HttpServerResponse.setHeaders(makeErrorResponse(415, error, request_id), compressedBodyRefusal.headers)
}

const isRouteNotFound = (error: unknown) =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

const setCommonHeaders = (response: HttpServerResponse.HttpServerResponse, request_id: string) =>
  HttpServerResponse.setHeaders(response, {
    // Responses may contain customer data and newly created keys.
    "cache-control": response.headers["cache-control"] ?? "no-store",
    "x-content-type-options": "nosniff",
    "x-api-version": "v1",
    "x-request-id": request_id,
    ...(response.status === 401 && { "www-authenticate": "Bearer" }),
    ...(response.body._tag === "Empty" && response.status !== 204 && { "content-length": "0" }),
  })

/**
 * Runs the route for a request, and adds the headers that all responses have, including the request ID. If there is no
 * route (404) or the route dies (500), returns an error response in the format of the API's errors. A request that
 * `refuse` rejects never reaches a route.
 */
export const withCommonResponses = <E, R>(routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const id = resolveRequestId(request.headers["x-request-id"])
    const response = routes.pipe(
      Effect.provideService(AdminRequestId, id),
      // If the client disconnects, the route is interrupted: nobody waits for a response.
      Effect.catchCauseIf((cause) => !Cause.hasInterruptsOnly(cause), (cause) => {
        const failure = Cause.squash(cause)
        if (!isRouteNotFound(failure)) {
          return Effect.map(logDefectAsInternalError(failure, id), (error) => makeErrorResponse(500, error, id))
        }
        const message = describeUnknownPath(request.method, request.url)
        return Effect.succeed(makeErrorResponse(404, new NotFound({ error: { message } }), id))
      }),
    )
    // The route runs only here, if `refuse` returns no response.
    return setCommonHeaders(refuse(request, id) ?? (yield* response), id)
  })
