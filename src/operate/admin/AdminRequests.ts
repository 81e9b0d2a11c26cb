/** Runs requests to the admin API: authentication, scopes, transactions, `Idempotency-Key`, and errors. */
import { Context, Duration, Effect, Fiber, Layer, Option, Predicate, Redacted, Schema } from "effect"
import { Digest } from "effect/crypto"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import { SqlClient, SqlError, type Statement } from "effect/sql"
import { makeBulkhead, makePermits } from "../../postgres/pool/Bulkhead.ts"
import {
  isConnectionLost,
  isLockError,
  isOutOfResources,
  isReadOnly,
  isStatementTimeout,
} from "../../postgres/SqlState.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { withActor } from "../../postgres/SessionActor.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { type InternalError, makeFieldError, redactApiKeys } from "../../contract/rules/Errors.ts"
import { logDefectAsInternalError, makeValidationError } from "../../contract/rules/Validation.ts"
import { makeValidationReasonFormatter } from "../../contract/rules/ValidationMessages.ts"
import {
  AdminAccess,
  AdminRequestId,
  AdminTransaction,
  CurrentAdmin,
  isScopeSufficient,
  RequiredScope,
} from "./AdminAccess.ts"
import {
  type AdminScope,
  ContentTooLarge,
  DatabaseRoleInsufficient,
  DatabaseUnavailable,
  IdempotencyKeyReused,
  InsufficientScope,
  InvalidAdminToken,
} from "./AdminErrors.ts"
import { findAdminToken } from "./AdminTokens.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

const isTemporary = (error: SqlError.SqlError) =>
  [isConnectionLost, isLockError, isOutOfResources, isReadOnly, isStatementTimeout].some((is) => is(error))

/** Creates a new error each time, because each gets the id of its request. */
const makeDatabaseUnavailable = () =>
  new DatabaseUnavailable({
    error: {
      message: "PostgreSQL cannot be reached, does not accept writes, or did not answer in time. Repeat the request " +
        "later; a write with the same Idempotency-Key.",
    },
  })

/**
 * Logs PostgreSQL's reason instead of returning it: clients without a valid token get this error too, and must not
 * learn it.
 */
const failWithReason = <E>(error: E, reason: SqlError.SqlError) =>
  Effect.andThen(
    Effect.logWarning(`A request to the admin port failed: ${describeSqlError(reason)}`),
    Effect.fail(error),
  )

/** Converts an error from PostgreSQL to one that the admin API declares. An unexpected one is a defect. */
const toDatabaseError = (
  error: SqlError.SqlError,
): Effect.Effect<never, DatabaseRoleInsufficient | DatabaseUnavailable> => {
  if (error.reason._tag === "AuthorizationError") {
    const message =
      "The PostgreSQL role of the admin API may not do this. Nothing was changed. Grant it the privileges " +
      `with \`${tickerlineCommand} grant ROLE --admin\`, or set ADMIN_DATABASE_URL to a role that has them.`
    return failWithReason(new DatabaseRoleInsufficient({ error: { message } }), error)
  }
  return isTemporary(error) ? failWithReason(makeDatabaseUnavailable(), error) : Effect.die(error)
}

/** Converts errors from PostgreSQL to errors that the admin API declares. */
export const withDatabaseErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    effect,
    (error: E): error is E & SqlError.SqlError => SqlError.isSqlError(error),
    (error) => toDatabaseError(error),
  )

/** Names of fields that contain a secret. Their values are never stored. */
const secretFields = new Set(["key", "token"])

/** Returns the response body in the form to store, without secrets. */
const toStoredBody = ({ body }: HttpServerResponse.HttpServerResponse) => {
  if (body._tag !== "Uint8Array") return null
  const text = new TextDecoder().decode(body.body)
  const value: unknown = JSON.parse(text)
  if (!Predicate.isObject(value)) return text
  return JSON.stringify(value, (name, field: unknown) => secretFields.has(name) ? null : field)
}

const StoredResponse = Schema.Struct({
  is_same: Schema.Boolean,
  status: Schema.Int,
  etag: Schema.NullOr(Schema.String),
  body: Schema.NullOr(Schema.String),
})

const replay = ({ body, etag, status }: typeof StoredResponse.Type) =>
  (body === null
    ? HttpServerResponse.empty({ status })
    : HttpServerResponse.text(body, { status, contentType: "application/json" })).pipe(
      HttpServerResponse.setHeaders({ "idempotency-replayed": "true", ...(etag !== null && { etag }) }),
    )

interface WriteRequest {
  readonly request: HttpServerRequest.HttpServerRequest
  readonly body: string
}

/** Returns the function that runs writes with an `Idempotency-Key`. */
const makeRunOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digest = yield* Digest.Digest
  const hash = (text: string) => digest.digestHex(Digest.sha256, new TextEncoder().encode(text))

  const findStoredResponse = Effect.fnUntraced(function* (isRow: Statement.Fragment, requestHash: string) {
    const [stored] = yield* decodeRows(StoredResponse)(sql`
      select request_hash = decode(${requestHash}, 'hex') as is_same, status, headers ->> 'etag' as etag, body
      from admin_requests where ${isRow}
    `)
    if (stored?.is_same === true) return replay(stored)
    return yield* new IdempotencyKeyReused({
      error: { message: "Another request had the same Idempotency-Key. Use a new key for each write." },
    })
  })

  /**
   * Runs a write only once: if a request with the same key ran it within the last 24 hours, returns the response to
   * that. The row of the key is inserted before the write, so that a concurrent request with the same key waits for
   * this transaction, and is rolled back with it if the write fails.
   */
  return Effect.fnUntraced(
    function* <E, R>(
      admin: string,
      key: string,
      { body, request }: WriteRequest,
      write: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
    ) {
      if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
        return yield* makeFieldError("Idempotency-Key", "must have 1 to 255 visible ASCII characters")
      }
      const keyHash = yield* hash(key)
      const condition = request.headers["if-match"] ?? ""
      const requestHash = yield* hash(`${request.method} ${request.url}\n${condition}\n${body}`)
      const isRow = sql`admin = ${admin} and key_hash = decode(${keyHash}, 'hex')`
      yield* sql`delete from admin_requests where requested_at < now() - interval '24 hours'`
      // If another transaction is running the same write right now, this waits for it.
      const inserted = yield* sql`
        insert into admin_requests (admin, key_hash, request_hash)
        values (${admin}, decode(${keyHash}, 'hex'), decode(${requestHash}, 'hex'))
        on conflict do nothing returning admin
      `
      if (inserted.length === 0) return yield* findStoredResponse(isRow, requestHash)
      const response = yield* write
      yield* sql`
        update admin_requests set status = ${response.status}::int, body = ${toStoredBody(response)},
          headers = jsonb_build_object('etag', ${response.headers["etag"] ?? null}::text)
        where ${isRow}
      `
      return response
    },
  )
})

const getReasons = makeValidationReasonFormatter({
  missing: "is required",
  unexpected: "is not a field or parameter of this request",
  wrongType: "has the wrong type",
})

/** Converts the error of a request that does not match its schemas to one that the admin API declares. */
const withValidationErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    effect,
    (error: E): error is E & HttpApiError.HttpApiSchemaError => HttpApiError.HttpApiSchemaError.is(error),
    (error) =>
      // The service's own response does not match its schema, which is a bug.
      error.kind === "Body" || error.kind === "ResponseHeaders" ? Effect.die(error) : Effect.fail(makeValidationError(
        getReasons(error.cause.issue).map(({ name, reason }) => ({ field: name || "body", reason })),
      )),
  )

/** Sets the request id in an error that has a field for it, because handlers do not know the id. */
const setRequestId = (request_id: string) => <E>(error: E) => {
  if (Predicate.hasProperty(error, "request_id")) Object.assign(error, { request_id })
  return error
}

/** Time limit for a request, because its connection to PostgreSQL may hang. */
const requestTimeout = Duration.seconds(40)

/** Reads the body before the request takes a connection to PostgreSQL. Later reads return the same text. */
const readBody = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  const contentType = request.headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase()
  const body = yield* request.text.pipe(
    Effect.mapError(() => new ContentTooLarge({ error: { message: "The body exceeds 1 MiB. Send a shorter one." } })),
  )
  if (body !== "" && contentType !== "application/json") {
    return yield* makeFieldError("Content-Type", "must be application/json")
  }
  return body
})

/** Fails if the URL or a text in the body contains a NUL character, which PostgreSQL cannot store. */
const refuseNul = ({ body, url }: { readonly body: string; readonly url: string }) =>
  /%00/.test(url) || /(?<!\\)(?:\\\\)*\\u0000/.test(body)
    ? Effect.fail(makeFieldError("request", "must not contain the character NUL"))
    : Effect.void

/**
 * Looks for the database error inside a defect. For example, a rollback on a lost connection fails with a defect, which
 * hides the error before it.
 */
const recoverDefect =
  (request_id: string) => (defect: unknown): Effect.Effect<never, DatabaseUnavailable | InternalError> =>
    defect instanceof DatabaseUnavailable
      ? Effect.fail(defect)
      : SqlError.isSqlError(defect) && isTemporary(defect)
      ? failWithReason(makeDatabaseUnavailable(), defect)
      : Effect.flatMap(logDefectAsInternalError(defect, request_id), Effect.fail)

/**
 * Ends a request to which PostgreSQL does not respond. Does not wait for its query to be interrupted, which may hang.
 */
const withTimeLimit = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDetach(effect), (fiber) =>
    Effect.timeoutOrElse(Fiber.join(fiber), {
      duration: requestTimeout,
      orElse: () => Effect.andThen(Effect.forkDetach(Fiber.interrupt(fiber)), Effect.fail(makeDatabaseUnavailable())),
    }))

/**
 * How many requests may use a connection at a time. There is one more connection, for authentication, which comes
 * first. One admin may use all but one of these, so that nobody's requests delay everyone else's.
 */
const maxConcurrentRequests = 3

/** How many connections to PostgreSQL the admin API opens. */
export const adminConnections = maxConcurrentRequests + 1

/** Converts defects and PostgreSQL errors to errors that the admin API declares, and sets their request id. */
const withRequestId = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(AdminRequestId, (request_id) =>
    effect.pipe(
      withDatabaseErrors,
      withTimeLimit,
      Effect.catchDefect(recoverDefect(request_id)),
      Effect.mapError(setRequestId(request_id)),
    ))

/** Logs who was refused, for the alert about many refusals. `what` gives the reason, and the admin if known. */
export const logRefusal = (what: string) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, remoteAddress, url }) => {
    const path = redactApiKeys(url.split("?", 1)[0] ?? "")
    const address = Option.getOrElse(remoteAddress, () => "unknown")
    return Effect.logWarning(`The admin port refused ${method} ${path} from ${address}; ${redactApiKeys(what)}`)
  })

const makeInvalidToken = (message: string) => new InvalidAdminToken({ error: { message } })

const identifyAdmin = Effect.fnUntraced(function* (token: Redacted.Redacted) {
  if (Redacted.value(token) === "") {
    return yield* makeInvalidToken(
      `Send an admin token as \`Authorization: Bearer TOKEN\`. \`${tickerlineCommand} admin tokens create\` ` +
        "creates one.",
    )
  }
  const found = yield* findAdminToken(token)
  if (found !== undefined) return found
  const message = "The admin token is unknown, revoked or expired."
  yield* logRefusal(message)
  return yield* makeInvalidToken(message)
})

const requireScope = Effect.fnUntraced(function* (
  { name, scope }: { readonly name: string; readonly scope: AdminScope },
  required_scope: AdminScope,
) {
  if (isScopeSufficient(scope, required_scope)) return
  yield* logRefusal(`${name} has the scope ${scope}, and needs ${required_scope}.`)
  return yield* new InsufficientScope({
    error: {
      message: `This endpoint requires the scope ${required_scope}; the token has ${scope}.`,
      details: { required_scope, scope },
    },
  })
})

/** Authenticates requests to the admin API. */
export const adminAccessLayer = Layer.effect(
  AdminAccess,
  Effect.gen(function* () {
    const services = yield* Effect.context<SqlClient.SqlClient | Digest.Digest>()
    return AdminAccess.of({
      token: Effect.fnUntraced(function* (httpEffect, { credential, endpoint }) {
        const admin = yield* identifyAdmin(credential).pipe(
          Effect.tap((admin) => requireScope(admin, Context.get(endpoint.annotations, RequiredScope))),
          withRequestId,
          Effect.provideContext(services),
        )
        return yield* Effect.provideService(httpEffect, CurrentAdmin, admin)
      }),
    })
  }),
)

/** Runs the writes of the admin API. */
export const adminTransactionLayer = Layer.effect(
  AdminTransaction,
  Effect.gen(function* () {
    const services = yield* Effect.context<SqlClient.SqlClient>()
    const runOnce = yield* makeRunOnce
    const { withPermit } = yield* makeBulkhead({
      permits: makePermits(maxConcurrentRequests),
      timeout: requestTimeout,
      onTimeout: makeDatabaseUnavailable,
    })

    return Effect.fnUntraced(function* (httpEffect, { endpoint }) {
      const { kind, name, opened_with, token_id } = yield* CurrentAdmin
      // Sessions of the same admin share their keys, so that a form can be sent again after signing in again.
      const owner = kind === "token" ? String(token_id) : opened_with === null ? `name ${name}` : String(opened_with)
      const request = yield* HttpServerRequest.HttpServerRequest
      const write = Effect.gen(function* () {
        const body = yield* readBody(request)
        yield* refuseNul({ body, url: "" })
        const key = request.headers["idempotency-key"]
        return yield* withPermit(owner)(withActor(
          {
            actor: name,
            via: "admin",
            origin: Option.getOrElse(request.remoteAddress, () => "unknown"),
            operation: `${endpoint.method} ${endpoint.path}`,
          },
          key === undefined ? httpEffect : runOnce(owner, key, { request, body }, httpEffect),
        ))
      })
      return yield* refuseNul({ body: "", url: request.url }).pipe(
        Effect.andThen(endpoint.method === "GET" ? withPermit(owner)(httpEffect) : write),
        withValidationErrors,
        withRequestId,
        Effect.provideContext(services),
      )
    })
  }),
)
