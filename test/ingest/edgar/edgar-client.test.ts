/**
 * Tests requests to the SEC: the User-Agent header, the rate limit shared by all processes, conditional requests and
 * retries (decision 0104).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Logger, Option } from "effect"
import { TestClock } from "effect/testing"
import { Buffer } from "node:buffer"
import { EdgarClient, edgarRetrySchedule, isUserAgentWithEmail } from "../../../src/ingest/edgar/fetch/EdgarClient.ts"
import { EdgarRateLimiter } from "../../../src/ingest/edgar/fetch/EdgarRateLimiter.ts"
import { hasOpenssl, startSelfSignedServer } from "../../support/Certificates.ts"
import * as Stub from "../../support/EdgarStub.ts"
import * as Service from "../../support/Service.ts"

const userAgent = "Acme Inc ops@acme.example"

const connect = ({ url }: Stub.EdgarStub) => EdgarClient.layer(userAgent, Option.some(url))

/** Creates a rate limiter that never waits. It counts requests and pauses. */
const makeOpenAccess = () => {
  const counts = { pauses: 0, requests: 0 }
  const access = Layer.succeed(EdgarRateLimiter, {
    acquire: Effect.sync(() => void (counts.requests += 1)),
    pause: Effect.sync(() => void (counts.pauses += 1)),
  })
  return { access, counts }
}

const requestPath = (stub: Stub.EdgarStub, path: string) =>
  Effect.flatMap(EdgarClient, ({ request }) => request({ url: stub.url + path })).pipe(Effect.provide(connect(stub)))

/** Advances the test clock in small steps until the effect completes. */
const advanceUntilDone = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    const step = Effect.andThen(TestClock.adjust("500 millis"), TestClock.withLive(Effect.sleep("10 millis")))
    yield* Effect.repeat(step, { until: () => fiber.pollUnsafe() !== undefined })
    return yield* Fiber.join(fiber)
  })

describe("The client for the SEC", () => {
  it("accepts a User-Agent only if it is a valid header value with an email address (decision 0104)", () => {
    const accepted = ["Acme Inc ops@acme.example", "Acme (ops@acme.example)", "Acme <ops@acme.example>"]
    assert.deepStrictEqual(accepted.filter((text) => !isUserAgentWithEmail(text)), [])
    const refused = [
      "",
      "Acme Inc",
      "curl/8.5.0",
      "Acme @acme",
      "Acme ops@acme.example\r\nX: y",
      "Äcme ops@acme.example",
    ]
    assert.deepStrictEqual(refused.filter(isUserAgentWithEmail), [])
  })

  it.effect("sends its User-Agent, and reads compressed responses (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      const response = yield* requestPath(stub, "/submissions/CIK0001830056.json")
      assert.strictEqual(
        response._tag === "Found" ? response.text : "",
        Stub.readRecording("submissions/CIK0001830056.json"),
      )
      assert.strictEqual(stub.requests[0]?.headers["user-agent"], userAgent)
      assert.include(stub.requests[0]?.headers["accept-encoding"], "gzip")
      assert.isUndefined(stub.requests[0]?.headers["traceparent"])
    }).pipe(Effect.provide(makeOpenAccess().access)))

  const utf16 = (text: string, isBigEndian: boolean) => {
    const bytes = Buffer.from(`\ufeff${text}`, "utf16le")
    return isBigEndian ? bytes.swap16() : bytes
  }
  const name = "<name>Jos\u00e9 \u20ac \u201cMüller\u201d</name>"
  const encodings: ReadonlyArray<readonly [name: string, xml: string, bytes: Uint8Array]> = [
    ["UTF-8 without a declaration", name, Buffer.from(name)],
    ["UTF-8 with a byte order mark", `<?xml version="1.0"?>${name}`, Buffer.from(`\ufeff<?xml version="1.0"?>${name}`)],
    ...[["ISO-8859-1", "Jos\u00e9 M\u00fcller"], ["iso-8859-1", "\u00c5ke"], ["US-ASCII", "Jane"]].map(
      ([encoding, text]) => {
        const xml = `<?xml version="1.0" encoding="${encoding}" ?>\n<name>${text}</name>`
        return [`${encoding}: ${text}`, xml, Buffer.from(xml, "latin1")] as const
      },
    ),
    [
      "windows-1252",
      `<?xml version='1.0' encoding='windows-1252'?><name>\u201cJos\u00e9\u201d \u20ac</name>`,
      Buffer.from(`<?xml version='1.0' encoding='windows-1252'?><name>\x93Jos\xe9\x94 \x80</name>`, "latin1"),
    ],
    ...[true, false].map((isBigEndian) => {
      const xml = `<?xml version="1.0" encoding="UTF-16"?>${name}`
      return [`UTF-16 ${isBigEndian ? "BE" : "LE"}`, xml, utf16(xml, isBigEndian)] as const
    }),
  ]
  for (const [encoding, xml, bytes] of encodings) {
    it.effect(`decodes XML in its declared encoding: ${encoding} (decision 0101)`, () =>
      Effect.gen(function* () {
        const stub = yield* Stub.startEdgarStub
        stub.responses.set("/form.xml", { ...Stub.makeXmlResponse(xml), bytes })
        const response = yield* requestPath(stub, "/form.xml")
        assert.strictEqual(response._tag === "Found" ? response.text : "", xml)
      }).pipe(Effect.provide(makeOpenAccess().access)))
  }

  it.effect("rejects XML with an unknown encoding, and XML that is invalid in its encoding (decision 0101)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      const reasonOf = (xml: string) => {
        stub.responses.set("/form.xml", { ...Stub.makeXmlResponse(xml), bytes: Buffer.from(xml, "latin1") })
        return Effect.map(
          Effect.flip(requestPath(stub, "/form.xml")),
          (error) => error._tag === "DocumentRejected" ? error.reason : error._tag,
        )
      }
      assert.strictEqual(
        yield* reasonOf(`<?xml version="1.0" encoding="x-martian"?><name/>`),
        "declares an unknown character encoding",
      )
      assert.strictEqual(
        yield* reasonOf(`<?xml version="1.0"?><name>Jos\xe9</name>`),
        "is not valid UTF-8, its declared character encoding",
      )
    }).pipe(Effect.provide(makeOpenAccess().access)))

  it.effect("treats the SEC's XML responses 403 and 404 as missing documents, without a retry (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      const { access, counts } = makeOpenAccess()
      for (const path of ["/Archives/edgar/full-index/2099/QTR1/form.gz", "/submissions/CIK-000000001.json"]) {
        assert.deepStrictEqual(yield* Effect.provide(requestPath(stub, path), access), { _tag: "Missing" })
      }
      assert.deepStrictEqual(counts, { pauses: 0, requests: 2 })
    }))

  it.effect("sends the validators of the last response, and understands 304 (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([]))
      yield* Effect.gen(function* () {
        const { request } = yield* EdgarClient
        const first = yield* request({ url: stub.url + Stub.tickerListPath })
        if (first._tag !== "Found") return assert.fail(first._tag)
        const second = yield* request({ url: stub.url + Stub.tickerListPath, validators: first.validators })
        assert.deepStrictEqual(second, { _tag: "Unchanged" })
      }).pipe(Effect.provide(connect(stub)))
    }).pipe(Effect.provide(makeOpenAccess().access)))

  it.effect("retries five times after server errors and broken connections (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      const faults = [Stub.unavailableFileResponse, "reset" as const]
      stub.behaviour.intercept = () => faults[stub.requests.length % faults.length]
      const error = yield* advanceUntilDone(Effect.flip(requestPath(stub, "/submissions/CIK0000320193.json")))
      assert.strictEqual(error._tag, "EdgarUnavailable")
      assert.match(
        error.message,
        /CIK0000320193\.json, even after retries: (status 503|no connection, or it was closed)\./,
      )
      assert.strictEqual(stub.requests.length, 6)
    }).pipe(Effect.provide(makeOpenAccess().access)))

  it.effect.skipIf(!hasOpenssl)(
    "names a certificate that is not trusted, and the setting for it (decision 0104)",
    () =>
      Effect.gen(function* () {
        const url = yield* startSelfSignedServer
        const requested = Effect.flatMap(EdgarClient, ({ request }) => request({ url: `${url}/list.json` })).pipe(
          Effect.provide(EdgarClient.layer(userAgent, Option.some(url))),
        )
        const { message } = yield* advanceUntilDone(Effect.flip(requested))
        assert.include(message, "its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)")
        assert.include(message, "set NODE_EXTRA_CA_CERTS to the authority's file.")
      }).pipe(Effect.provide(Layer.merge(makeOpenAccess().access, NodeServices.layer))),
  )

  it.effect("waits 1, 2, 4, 8 and 16 seconds before the retries, each varied by up to 20% (decision 0104)", () =>
    Effect.gen(function* () {
      const times: Array<number> = []
      const attempt = Effect.flatMap(Clock.currentTimeMillis, (time) => {
        times.push(time)
        return Effect.fail("unavailable")
      })
      yield* advanceUntilDone(Effect.flip(Effect.retry(attempt, edgarRetrySchedule)))
      assert.strictEqual(times.length, 6)
      const delays = times.slice(1).map((time, index) => (time - (times[index] ?? 0)) / 1000)
      // The test clock advances in steps of half a second, so a measured delay may be off by that much.
      for (const [index, delay] of delays.entries()) {
        assert.isAtLeast(delay, 2 ** index * 0.8 - 0.5)
        assert.isAtMost(delay, 2 ** index * 1.2 + 0.5)
      }
    }))

  it.effect("succeeds if the SEC recovers in the meantime (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      stub.behaviour.intercept = () => stub.requests.length < 3 ? Stub.unavailableFileResponse : undefined
      const response = yield* advanceUntilDone(requestPath(stub, "/submissions/CIK0001830056.json"))
      assert.strictEqual(response._tag, "Found")
    }).pipe(Effect.provide(makeOpenAccess().access)))

  it.effect.each([403, 429, 200])(
    "pauses if the SEC refuses a request with status %i, repeats it once, and then gives up (decision 0104)",
    (status) =>
      Effect.gen(function* () {
        const stub = yield* Stub.startEdgarStub
        const { access, counts } = makeOpenAccess()
        stub.behaviour.intercept = () => stub.requests.length === 1 ? Stub.makeAccessRefusal(status) : undefined
        const response = yield* Effect.provide(requestPath(stub, "/submissions/CIK0001830056.json"), access)
        assert.strictEqual(response._tag, "Found")
        assert.deepStrictEqual(counts, { pauses: 1, requests: 2 })
        stub.behaviour.intercept = () => Stub.makeAccessRefusal(status)
        const error = yield* Effect.flip(Effect.provide(requestPath(stub, "/submissions/CIK0001830056.json"), access))
        assert.strictEqual(error._tag, "EdgarBlocked")
        assert.deepStrictEqual(counts, { pauses: 3, requests: 4 })
      }),
  )

  it.effect("follows no redirect (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      stub.responses.set("/moved", { status: 301, type: "text/html", body: "", headers: { location: "/elsewhere" } })
      const error = yield* advanceUntilDone(Effect.flip(requestPath(stub, "/moved")))
      assert.match(error.message, /\/moved, even after retries: status 301\./)
      assert.isTrue(stub.requests.every(({ path }) => path === "/moved"))
    }).pipe(Effect.provide(makeOpenAccess().access)))

  it.effect("refuses a body of more than 64 MB (decision 0104)", () =>
    Effect.gen(function* () {
      const stub = yield* Stub.startEdgarStub
      stub.responses.set("/submissions/CIK0000000001.json", Stub.makeXmlResponse("x".repeat(64_000_001)))
      const error = yield* Effect.flip(requestPath(stub, "/submissions/CIK0000000001.json"))
      assert.match(error.message, /CIK0000000001\.json: is larger than 64 MB/)
    }).pipe(Effect.provide(makeOpenAccess().access)))
})

layer(Layer.mergeAll(Service.migratedDatabaseLayer, Logger.layer([])).pipe(Layer.provideMerge(NodeServices.layer)), {
  excludeTestServices: true,
})("The SEC rate limit", (it) => {
  it.effect("gives two processes together at most 10 slots in any second (decision 0104)", () =>
    Effect.gen(function* () {
      yield* Stub.recordRequestSlots
      const takeSlots = Effect.flatMap(
        EdgarRateLimiter,
        ({ acquire }) => Effect.all(Array.from({ length: 10 }, () => acquire), { concurrency: 4 }),
      ).pipe(Effect.provide(Layer.fresh(EdgarRateLimiter.layer)))
      yield* Effect.all([takeSlots, takeSlots], { concurrency: 2 })
      const { busiestSecond, count } = yield* Stub.countRequestSlots
      assert.isAtLeast(count, 20)
      assert.isAtMost(busiestSecond, 10)
    }))
})
