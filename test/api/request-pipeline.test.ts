/** Tests that the request pipeline serves exactly the endpoints in its contract. */
import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { makeHandler, makePublicHandler } from "../../src/query/EndpointHandler.ts"
import { AuthenticationMiddleware } from "../../src/contract/Authentication.ts"
import type { EndpointHandlers } from "../../src/api/Routes.ts"
import { makeObjectEncoder } from "../../src/contract/rules/EndpointResult.ts"
import { NoParameters } from "../../src/contract/rules/FilterParameters.ts"
import { gzipHeaders, slowGzipDown } from "../support/BrokenCompression.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as Service from "../support/Service.ts"
import { serveApi } from "../support/SmallApis.ts"

const Success = Schema.Struct({ ok: Schema.Boolean })

const makeEndpoint = <const Name extends string>(name: Name) =>
  HttpApiEndpoint.get(name, `/v1/${name}`, { query: NoParameters, success: Success })

class Small extends HttpApi.make("small")
  .add(HttpApiGroup.make("keyed").add(makeEndpoint("private")))
  .middleware(AuthenticationMiddleware)
  .add(HttpApiGroup.make("open").add(makeEndpoint("public"))) {}

const encode = makeObjectEncoder(Success)
const needsKey = makeHandler(NoParameters, () => Effect.succeed(encode({ ok: true })))
const needsNoKey = makePublicHandler(NoParameters, () => Effect.succeed(encode({ ok: true })))

const serve = (handlers: EndpointHandlers) => serveApi(Small, Effect.succeed(handlers))

/** Starts a service with these handlers. Returns the reason why it does not start. */
const explainRefusal = (handlers: EndpointHandlers) =>
  Effect.map(
    Effect.exit(Effect.scoped(Layer.build(serve(handlers)))),
    (started) => Exit.isFailure(started) ? Cause.pretty(started.cause) : "it started",
  )

it.effect("the service starts if each endpoint has a handler, which may do without the account (§4)", () =>
  Effect.gen(function* () {
    for (const handler of [needsKey, needsNoKey]) {
      const statuses = yield* Effect.forEach(
        [["/v1/private", null], ["/v1/private", undefined], ["/v1/public", null], ["/v1/other", null]] as const,
        ([path, key]) =>
          Effect.map(Service.requestJson(path, key === undefined ? {} : { key }), ({ status }) => status),
      ).pipe(Effect.provide(serve({ keyed: { private: handler }, open: { public: needsNoKey } })))
      assert.deepStrictEqual(statuses, [401, 200, 200, 404])
    }
  }))

it.effect("the service does not start if nothing handles an endpoint of the contract (§4)", () =>
  Effect.gen(function* () {
    const message = /Nothing handles the endpoint \/v1\/private/
    assert.match(yield* explainRefusal({ open: { public: needsNoKey } }), message)
    assert.match(yield* explainRefusal({ keyed: {}, open: { public: needsNoKey } }), message)
  }))

it.effect("the service does not start if a handler needs the account of an endpoint without a key (§5)", () =>
  Effect.gen(function* () {
    const handlers = { keyed: { private: needsKey }, open: { public: needsKey } }
    assert.match(yield* explainRefusal(handlers), /The handler of \/v1\/public needs a key/)
  }))

it.effect("a handler that fails unexpectedly, at once or later, gives 500 (D11)", () =>
  Effect.gen(function* () {
    const fault = new Error("fault")
    const throws = () => {
      throw fault
    }
    for (const response of [throws, () => Exit.die(fault), () => Effect.andThen(Effect.yieldNow, Effect.die(fault))]) {
      const handlers = {
        keyed: { private: makeHandler(NoParameters, response) },
        open: { public: makePublicHandler(NoParameters, response) },
      }
      const statuses = yield* Effect.forEach(
        ["/v1/private", "/v1/public"],
        (path) => Effect.map(Service.requestJson(path), ({ status }) => status),
      ).pipe(Effect.provide(serve(handlers)))
      assert.deepStrictEqual(statuses, [500, 500])
    }
  }))

it.live("the recorded duration of a request includes the compression of its response (D29)", () =>
  Effect.gen(function* () {
    // The test's client does not decompress, and would parse a body of JSON.
    const page = { ...encode({ ok: true }), contentType: "text/csv", body: new Uint8Array(10_000) }
    const handlers = {
      keyed: { private: makeHandler(NoParameters, () => Effect.succeed(page)) },
      open: { public: needsNoKey },
    }
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const getCompressionMillis = yield* slowGzipDown
      assert.strictEqual((yield* Service.requestJson("/v1/private", { headers: gzipHeaders })).status, 200)
      const [recorded] = yield* CustomerUsage.retryUntil(
        sql<{ readonly duration: number }>`select duration_ms::int as duration from usage_requests`,
        (rows) => rows.length > 0,
      )
      assert.isAbove(getCompressionMillis(), 0)
      assert.isAtLeast(recorded?.duration ?? 0, Math.floor(getCompressionMillis()))
    }).pipe(Effect.scoped, Effect.provide(serve(handlers)))
  }))

it.live("a page that cannot become a response gives 500, and is recorded as 500 (D11, D29)", () =>
  Effect.gen(function* () {
    const page = Object.defineProperty(encode({ ok: true }), "headers", {
      get: () => {
        throw new Error("fault")
      },
    })
    const handlers = {
      keyed: { private: makeHandler(NoParameters, () => Effect.succeed(page)) },
      open: { public: needsNoKey },
    }
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual((yield* Service.requestJson("/v1/private")).status, 500)
      const recorded = yield* CustomerUsage.retryUntil(
        sql`select status_code::int as status from usage_requests`,
        (rows) => rows.length > 0,
      )
      assert.deepStrictEqual(recorded, [{ status: 500 }])
    }).pipe(Effect.provide(serve(handlers)))
  }))
