/** Processes admin API requests: authentication, scopes, transactions, `Idempotency-Key`, and errors. */
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
import { type InternalError, makeFieldError, redactApiKeys } from "../../contract/rules/ApiErrors.ts"
import { logDefectAsInternalError, makeValidationError } from "../../contract/rules/QueryValidation.ts"
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
import { maxConcurrentAdminRequests } from "./AdminSettings.ts"
import { findAdminToken } from "./AdminTokens.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

const isTemporary = (error: SqlError.SqlError) =>
  [isConnectionLost, isLockError, isOutOfResources, isReadOnly, isStatementTimeout].some((is) => is(error))

/** Creates the error anew for every request, because `setRequestId` writes the request ID into the error object. */
const makeDatabaseUnavailable = () =>
  new DatabaseUnavailable({
    error: {
      message: "PostgreSQL cannot be reached, does not accept writes, or did not answer in time. Repeat the request " +
        "later; a write with the same Idempotency-Key.",
    },
  })

/**
 * Logs PostgreSQL's reason instead of returning it. Clients without a valid token can also get this error, and must not
 * learn the reason.
 */
const failWithReason = <E>(error: E, reason: SqlError.SqlError) =>
  Effect.andThen(
    Effect.logWarning(`A request to the admin port failed: ${describeSqlError(reason)}`),
    Effect.fail(error),
  )

/** Converts a PostgreSQL error to an error that the admin API declares. Unexpected errors become defects. */
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

/** Converts PostgreSQL errors of an effect to errors that the admin API declares. */
export const withDatabaseErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    effect,
    (error: E): error is E & SqlError.SqlError => SqlError.isSqlError(error),
    (error) => toDatabaseError(error),
  )

/** Names of response fields that contain a secret. Their values are never stored. */
const secretFields = new Set(["key", "token"])

/** Returns the response body in the form in which it is stored: as text, with secrets replaced by null. */
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

/** Returns the stored response of a write that has already run, with a header that says so. */
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

/**
 * Creates the function that runs writes with an `Idempotency-Key`, so that a client that repeats a write after a lost
 * response does not write twice. The table `admin_requests` has a row for each key that an owner, which is an admin,
 * has used within the last 24 hours: digests of the key and of the request, and the stored response.
 */
const makeRunOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const digest = yield* Digest.Digest
  const hash = (text: string) => digest.digestHex(Digest.sha256, new TextEncoder().encode(text))

  /** Returns the response stored in the row that `isRow` selects. Fails if the row belongs to a different request. */
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
   * Runs a write at most once for each key of an owner, and returns its response. If the same request has already run
   * within the last 24 hours, returns the stored response instead. Must run in the transaction of the write: the key's
   * row is inserted first, so that a concurrent request with the same key waits for the end of this transaction, and if
   * the write fails, the row is rolled back, so that the client can retry with the same key.
   */
  return Effect.fnUntraced(
    function* <E, R>(
      owner: string,
      key: string,
      { body, request }: WriteRequest,
      write: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
    ) {
      if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
        return yield* makeFieldError("Idempotency-Key", "must have 1 to 255 visible ASCII characters")
      }
      const keyHash = yield* hash(key)
      // `If-Match` is part of the request, because the same write under another condition may have another result.
      const condition = request.headers["if-match"] ?? ""
      const requestHash = yield* hash(`${request.method} ${request.url}\n${condition}\n${body}`)
      const isRow = sql`admin = ${owner} and key_hash = decode(${keyHash}, 'hex')`
      yield* sql`delete from admin_requests where requested_at < now() - interval '24 hours'`
      // If another transaction is currently running a write with the same key, the insert waits for it to end. No row
      // is inserted if that write, or an earlier one, has committed its row.
      const inserted = yield* sql`
        insert into admin_requests (admin, key_hash, request_hash)
        values (${owner}, decode(${keyHash}, 'hex'), decode(${requestHash}, 'hex'))
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

/** Converts the error for a request that does not match its schemas to an error that the admin API declares. */
const withValidationErrors = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    effect,
    (error: E): error is E & HttpApiError.HttpApiSchemaError => HttpApiError.HttpApiSchemaError.is(error),
    (error) =>
      // These kinds mean that the service's own response does not match its schema, which is a bug.
      error.kind === "Body" || error.kind === "ResponseHeaders" ? Effect.die(error) : Effect.fail(makeValidationError(
        getReasons(error.cause.issue).map(({ name, reason }) => ({ field: name || "body", reason })),
      )),
  )

/**
 * Sets the request ID in an error that has a field for it. Handlers leave the field empty, because they do not know the
 * ID.
 */
const setRequestId = (request_id: string) => <E>(error: E) => {
  if (Predicate.hasProperty(error, "request_id")) Object.assign(error, { request_id })
  return error
}

/** The time limit for a request. It is needed because a connection to PostgreSQL may hang. */
const requestTimeout = Duration.seconds(40)

/**
 * Reads the request body before the request acquires a PostgreSQL connection, so that a slow client does not occupy
 * one. Later reads of the body return the same text.
 */
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

/**
 * Fails if the URL or a string in the JSON body contains a NUL character, because PostgreSQL cannot store it. In the
 * body, `\u0000` is a NUL only if an even number of backslashes precedes it: after an odd number, its own backslash is
 * escaped.
 */
const rejectNulCharacters = ({ body, url }: { readonly body: string; readonly url: string }) =>
  /%00/.test(url) || /(?<!\\)(?:\\\\)*\\u0000/.test(body)
    ? Effect.fail(makeFieldError("request", "must not contain the character NUL"))
    : Effect.void

/**
 * Converts a defect to a declared error. If the defect contains a database error, reports that: for example, a rollback
 * on a lost connection fails with a defect, which hides the original error.
 */
const recoverDefect =
  (request_id: string) => (defect: unknown): Effect.Effect<never, DatabaseUnavailable | InternalError> =>
    defect instanceof DatabaseUnavailable
      ? Effect.fail(defect)
      : SqlError.isSqlError(defect) && isTemporary(defect)
      ? failWithReason(makeDatabaseUnavailable(), defect)
      : Effect.flatMap(logDefectAsInternalError(defect, request_id), Effect.fail)

/**
 * Fails a request if PostgreSQL does not respond in time. Interrupts the running query without waiting for the
 * interruption, because on a hanging connection the interruption hangs too.
 */
const withTimeLimit = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.forkDetach(effect), (fiber) =>
    Effect.timeoutOrElse(Fiber.join(fiber), {
      duration: requestTimeout,
      orElse: () => Effect.andThen(Effect.forkDetach(Fiber.interrupt(fiber)), Effect.fail(makeDatabaseUnavailable())),
    }))

/**
 * Completes the errors of a request: converts defects, timeouts, and PostgreSQL errors to errors that the admin API
 * declares, and sets their request ID.
 */
const withRequestId = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(AdminRequestId, (request_id) =>
    effect.pipe(
      withDatabaseErrors,
      withTimeLimit,
      Effect.catchDefect(recoverDefect(request_id)),
      Effect.mapError(setRequestId(request_id)),
    ))

/**
 * Logs a refused request, for the alert that fires on many refusals. `what` contains the reason, and the admin if
 * known.
 */
export const logRefusedRequest = (what: string) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, remoteAddress, url }) => {
    const path = redactApiKeys(url.split("?", 1)[0] ?? "")
    const address = Option.getOrElse(remoteAddress, () => "unknown")
    return Effect.logWarning(`The admin port refused ${method} ${path} from ${address}; ${redactApiKeys(what)}`)
  })

/**
 * Returns who owns the idempotency keys of a request and shares one limit of concurrent requests: a token together with
 * the console sessions that it opened, or otherwise all sessions of the person with this name. A form can therefore be
 * submitted again with the same key after signing in again.
 */
const getOwner = ({ kind, name, opened_with, token_id }: CurrentAdmin["Service"]) => {
  if (kind === "token") return String(token_id)
  return opened_with === null ? `name ${name}` : String(opened_with)
}

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
  yield* logRefusedRequest(message)
  return yield* makeInvalidToken(message)
})

const requireScope = Effect.fnUntraced(function* (
  { name, scope }: { readonly name: string; readonly scope: AdminScope },
  required_scope: AdminScope,
) {
  if (isScopeSufficient(scope, required_scope)) return
  yield* logRefusedRequest(`${name} has the scope ${scope}, and needs ${required_scope}.`)
  return yield* new InsufficientScope({
    error: {
      message: `This endpoint requires the scope ${required_scope}; the token has ${scope}.`,
      details: { required_scope, scope },
    },
  })
})

/**
 * The middleware that authenticates admin API requests: it finds the admin that the token in `Authorization` belongs
 * to, and refuses the request if the admin's scope is not sufficient for the endpoint. Handlers get the admin as
 * `CurrentAdmin`.
 */
export const adminAccessLayer = Layer.effect(
  AdminAccess,
  Effect.gen(function* () {
    // The type of the middleware does not allow it to require services, so it brings them along.
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

/**
 * The middleware that limits how many admin API requests use the database at the same time. It runs each write in a
 * transaction that is attributed to the admin, and only once if the write has an `Idempotency-Key`.
 */
export const adminTransactionLayer = Layer.effect(
  AdminTransaction,
  Effect.gen(function* () {
    const services = yield* Effect.context<SqlClient.SqlClient>()
    const runOnce = yield* makeRunOnce
    const { withPermit } = yield* makeBulkhead({
      permits: makePermits(maxConcurrentAdminRequests),
      timeout: requestTimeout,
      onTimeout: makeDatabaseUnavailable,
    })

    return Effect.fnUntraced(function* (httpEffect, { endpoint }) {
      const { name } = yield* CurrentAdmin
      const owner = getOwner(yield* CurrentAdmin)
      const request = yield* HttpServerRequest.HttpServerRequest
      const write = Effect.gen(function* () {
        const body = yield* readBody(request)
        yield* rejectNulCharacters({ body, url: "" })
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
      // The URL is checked first for every request. The body is checked in `write`, because reading requests have none.
      return yield* rejectNulCharacters({ body: "", url: request.url }).pipe(
        Effect.andThen(endpoint.method === "GET" ? withPermit(owner)(httpEffect) : write),
        withValidationErrors,
        withRequestId,
        Effect.provideContext(services),
      )
    })
  }),
)
