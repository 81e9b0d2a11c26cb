/**
 * The console's client for the admin API. Its requests run in this process, through the router that also serves the
 * API, with the browser's session as their token. So it is the API that decides about scopes, validation, conflicts and
 * the audit log.
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
import { type FieldError, keyField, type SentValues } from "./Forms.ts"

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

/** An error response of the admin API. */
export class ApiFailure extends Data.TaggedError("ApiFailure")<{
  readonly status: number
  readonly code: string
  readonly message: string
  readonly fields: ReadonlyArray<FieldError>
  readonly request_id: string
}> {}

/** Builds URLs of the admin API. */
export const apiUrl = HttpApiClient.urlBuilder(AdminApi)

/** The cookie that contains the session's token. */
export const sessionCookie = "tickerline_admin"

const getReasons = makeValidationReasonFormatter({
  missing: "is required",
  unexpected: "is not a parameter",
  wrongType: "has the wrong type",
})

/** A URL must have a host, but this one is never contacted. */
const baseUrl = "http://console.invalid"

/** Creates a client whose effects fail with any response but a success. */
const makeHttpClient = (router: HttpRouter.HttpRouter) =>
  HttpClient.makeWith<never, never, ApiFailure, HttpServerRequest.HttpServerRequest>(
    Effect.flatMap(Effect.fnUntraced(function* (request: HttpClientRequest.HttpClientRequest) {
      const browser = yield* HttpServerRequest.HttpServerRequest
      const session = browser.cookies[sessionCookie] ?? ""
      const forwarded = HttpServerRequest.fromClientRequest(HttpClientRequest.bearerToken(request, session))
        .modify({ remoteAddress: browser.remoteAddress })
      const deferredResponse = yield* Deferred.make<HttpServerResponse.HttpServerResponse>()
      // Runs in a fiber of its own, because the handler changes the context of its fiber.
      yield* Effect.forkChild(
        HttpEffect.toHandled(
          router.asHttpEffect(),
          (_request, response) => Deferred.succeed(deferredResponse, response),
        ).pipe(
          Effect.provideService(HttpServerRequest.HttpServerRequest, forwarded),
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
    (request) => Effect.succeed(request),
  )

/** A write that the console sends to the API. */
export interface ApiWrite {
  readonly method?: "PATCH" | "POST" | "PUT"
  /** The form, which contains the `Idempotency-Key`. */
  readonly form: SentValues<typeof keyField>
  /** Sent unchanged, so that it is the API that validates it. */
  readonly body?: Readonly<Record<string, Schema.Json | undefined>>
  readonly etag?: string
}

/** The client of one request to the console. */
export interface ConsoleApi {
  readonly read: HttpApiClient.ForApi<typeof AdminApi, ApiFailure, HttpServerRequest.HttpServerRequest>
  /** Sends a write, and returns the response body, or null if it is empty. */
  readonly write: (
    url: string,
    write: ApiWrite,
  ) => Effect.Effect<unknown, ApiFailure, HttpServerRequest.HttpServerRequest>
}

/** Creates a failure that comes from the console itself. */
export const makeFailure = (status: number, message: string) =>
  new ApiFailure({ status, code: "", message, fields: [], request_id: "" })

/** Creates the failure for values that cannot be sent to the API, with the reasons that the API would give. */
const makeInvalidAddress = ({ issue }: Schema.SchemaError) =>
  makeFailure(422, `${getReasons(issue).map(({ name, reason }) => `${name} ${reason}`.trim()).join("; ")}.`)

/** Decodes the values in a page's URL as the API does, because the API's client accepts only decoded values. */
export const decodeQuery = <const Fields extends Readonly<Record<string, Schema.Codec<unknown, unknown>>>>(
  fields: Fields,
  values: Readonly<Partial<Record<keyof Fields & string, string | undefined>>>,
) =>
  Schema.decodeUnknownEffect(Schema.Struct(fields), { errors: "all" })(
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)),
  ).pipe(Effect.mapError(makeInvalidAddress))

/** Keeps errors that are responses from the API. Others are defects, except for a query that cannot be encoded. */
export const call = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catch(effect, (error): Effect.Effect<never, ApiFailure> => {
    if (error instanceof ApiFailure) return Effect.fail(error)
    return Schema.isSchemaError(error) ? Effect.fail(makeInvalidAddress(error)) : Effect.die(error)
  })

/** Creates the client for the session of a browser. */
export const makeConsoleApi = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter) {
  const httpClient = makeHttpClient(router)
  const api: ConsoleApi = {
    read: yield* HttpApiClient.makeWith(AdminApi, { httpClient, baseUrl }),
    write: Effect.fnUntraced(function* (url, { body, etag, form, method = "POST" }) {
      const headers = Headers.fromInput({ "idempotency-key": form.get(keyField) ?? undefined, "if-match": etag })
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

/** Returns a secret that was just created, or null if the request was a repeated one. */
export const readSecret = (body: unknown, field: "key" | "token") => {
  const secret = Predicate.hasProperty(body, field) ? body[field] : null
  return typeof secret === "string" ? secret : null
}
