/**
 * The console's client for the admin API. Requests are handled in this process by the same router that serves the API,
 * with the browser's session as the token. Scopes, validation, conflicts, and the audit log are therefore handled by
 * the API, not by the console.
 */
import { Data, Deferred, Effect, Predicate, Schema } from "effect"
import {
  Headers,
  HttpClient,
  HttpClientRequest,
  HttpEffect,
  type HttpRouter,
  HttpServerRequest,
  HttpServerResponse,
} from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { AdminApi } from "../admin/AdminApi.ts"
import { makeValidationReasonFormatter } from "../../contract/rules/ValidationMessages.ts"
import { type FieldError, idempotencyKeyField, type SubmittedValues } from "./Forms.ts"

const ErrorBody = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String,
    message: Schema.String,
    details: Schema.optionalKey(Schema.Struct({
      fields: Schema.optionalKey(Schema.Array(Schema.Struct({ field: Schema.String, reason: Schema.String }))),
    })),
  }),
  request_id: Schema.String,
})

/** An error response from the admin API. */
export class ApiFailure extends Data.TaggedError("ApiFailure")<{
  readonly status: number
  readonly code: string
  readonly message: string
  readonly fields: ReadonlyArray<FieldError>
  readonly request_id: string
}> {}

/** Builds the URLs of admin API endpoints. */
export const apiUrl = HttpApiClient.urlBuilder(AdminApi)

/** The name of the cookie that contains the session token. */
export const sessionCookie = "tickerline_admin"

const getReasons = makeValidationReasonFormatter({
  missing: "is required",
  unexpected: "is not a parameter",
  wrongType: "has the wrong type",
})

/** A placeholder, because a URL must have a host. The host is never contacted. */
const baseUrl = "http://console.invalid"

/**
 * Creates an HTTP client that passes requests to the router in this process instead of sending them. A request carries
 * the session and the address of the browser whose request is currently handled. An error response becomes an
 * `ApiFailure`.
 */
const makeHttpClient = (router: HttpRouter.HttpRouter) =>
  HttpClient.makeWith<never, never, ApiFailure, HttpServerRequest.HttpServerRequest>(
    Effect.flatMap(Effect.fnUntraced(function* (request: HttpClientRequest.HttpClientRequest) {
      const browser = yield* HttpServerRequest.HttpServerRequest
      const session = browser.cookies[sessionCookie] ?? ""
      const forwarded = HttpServerRequest.fromClientRequest(HttpClientRequest.bearerToken(request, session))
        .modify({ remoteAddress: browser.remoteAddress })
      const deferredResponse = yield* Deferred.make<HttpServerResponse.HttpServerResponse>()
      // The handler must run in a separate fiber, because it changes the context of its fiber.
      yield* Effect.forkChild(
        HttpEffect.toHandled(
          router.asHttpEffect(),
          (_request, response) => Deferred.succeed(deferredResponse, response),
        ).pipe(
          Effect.provideService(HttpServerRequest.HttpServerRequest, forwarded),
          // Has no effect if there is a response. Without it, a handler that dies would leave the caller waiting
          // forever.
          Effect.ensuring(Deferred.die(deferredResponse, new Error("The admin API did not respond."))),
        ),
      )
      const response = HttpServerResponse.toClientResponse(yield* Deferred.await(deferredResponse), { request })
      if (response.status < 400) return response
      const { error, request_id } = yield* response.json.pipe(
        Effect.flatMap(Schema.decodeUnknownEffect(ErrorBody)),
        Effect.orDie,
      )
      const { code, details, message } = error
      return yield* new ApiFailure({
        status: response.status,
        code,
        message,
        fields: details?.fields ?? [],
        request_id,
      })
    })),
    // The second parameter prepares requests, which is not needed.
    (request) => Effect.succeed(request),
  )

/** A write request that the console sends to the API. */
export interface AdminApiWriteRequest {
  readonly method?: "PATCH" | "POST" | "PUT"
  /** The submitted form, which contains the `Idempotency-Key`. */
  readonly form: SubmittedValues<typeof idempotencyKeyField>
  /** The request body. It is sent as it is, and the API validates it. */
  readonly body?: Readonly<Record<string, Schema.Json | undefined>>
  readonly etag?: string
}

/** The admin API client for one request to the console. */
export interface ConsoleApi {
  readonly read: HttpApiClient.ForApi<typeof AdminApi, ApiFailure, HttpServerRequest.HttpServerRequest>
  /** Sends a write request. Returns the response body, or null if it is empty. */
  readonly write: (
    url: string,
    write: AdminApiWriteRequest,
  ) => Effect.Effect<unknown, ApiFailure, HttpServerRequest.HttpServerRequest>
}

/** Creates a failure that was raised by the console itself, not by the API. */
export const makeApiFailure = (status: number, message: string) =>
  new ApiFailure({ status, code: "", message, fields: [], request_id: "" })

/** Creates the failure for query values that cannot be sent to the API. It gives the same reasons as the API would. */
const makeInvalidAddress = ({ issue }: Schema.SchemaError) =>
  makeApiFailure(422, `${getReasons(issue).map(({ name, reason }) => `${name} ${reason}`.trim()).join("; ")}.`)

/**
 * Decodes the query parameters of a page URL with the API's schema, because the API client accepts only decoded values.
 */
export const decodeQuery = <const Fields extends Readonly<Record<string, Schema.Codec<unknown, unknown>>>>(
  fields: Fields,
  values: Readonly<Partial<Record<keyof Fields & string, string | undefined>>>,
) =>
  Schema.decodeUnknownEffect(Schema.Struct(fields), { errors: "all" })(
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)),
  ).pipe(Effect.mapError(makeInvalidAddress))

/**
 * Calls the admin API. Fails with the API's error response, or with status 422 if the query cannot be encoded. All
 * other errors become defects, because they are bugs in the console.
 */
export const callAdminApi = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catch(effect, (error): Effect.Effect<never, ApiFailure> => {
    if (error instanceof ApiFailure) return Effect.fail(error)
    return Schema.isSchemaError(error) ? Effect.fail(makeInvalidAddress(error)) : Effect.die(error)
  })

/**
 * Creates the console's API client. `read` has a typed function for each endpoint that reads. `write` sends a form:
 * with its `Idempotency-Key`, so that a form that is submitted twice is written once, and with an ETag for the forms
 * that must not overwrite another admin's change.
 */
export const makeConsoleApi = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter) {
  const httpClient = makeHttpClient(router)
  const api: ConsoleApi = {
    read: yield* HttpApiClient.makeWith(AdminApi, { httpClient, baseUrl }),
    write: Effect.fnUntraced(function* (url, { body, etag, form, method = "POST" }) {
      const headers = Headers.fromInput({
        "idempotency-key": form.get(idempotencyKeyField) ?? undefined,
        "if-match": etag,
      })
      const request = HttpClientRequest.make(method)(`${baseUrl}${url}`, { headers })
      const response = yield* httpClient.execute(
        body === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, body),
      )
      const text = yield* Effect.orDie(response.text)
      const parsed: unknown = text === "" ? null : JSON.parse(text)
      return parsed
    }),
  }
  return api
})

/** Returns the newly created secret from a response, or null if the response was replayed for a repeated request. */
export const readSecret = (body: unknown, field: "key" | "token") => {
  const secret = Predicate.hasProperty(body, field) ? body[field] : null
  return typeof secret === "string" ? secret : null
}
