/** Scenarios for state shared between processes (rate limits, revoked keys and sent emails), and for wrong keys. */
import { Effect, Schedule } from "effect"
import { performance } from "node:perf_hooks"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { createCustomer } from "../Customers.ts"
import { Cluster } from "../Cluster.ts"
import { failUnless, type Scenario } from "../Scenario.ts"
import { type AppHost, appHosts, servicePorts } from "../ProxiesAndPoolers.ts"
import { requestWithTimeout } from "../RequestWithTimeout.ts"

/** Converts milliseconds to seconds with two decimals. */
const toSeconds = (milliseconds: number) => Math.round(milliseconds / 10) / 100

const path = "/v1/gap-stats?limit=1"

/** Sends a request directly to one process, bypassing the load balancer. */
const requestFrom = Effect.fnUntraced(function* (app: AppHost, key: string, localAddress?: string) {
  const { hosts } = yield* Cluster
  return yield* requestWithTimeout({
    host: hosts.addressOf(app),
    port: servicePorts.service,
    path,
    headers: { Authorization: `Bearer ${key}` },
    ...(localAddress === undefined ? {} : { localAddress }),
  })
})

/** Sends requests to a process until it refuses the key. Returns how many milliseconds after `since` that happened. */
const measureRevocation = Effect.fnUntraced(function* (app: AppHost, key: string, since: number) {
  const response = yield* requestFrom(app, key).pipe(
    Effect.repeat({ until: ({ status }) => status === 401, schedule: Schedule.spaced("20 millis"), times: 200 }),
  )
  yield* failUnless(
    /api_key_disabled/.test(response.text),
    `${app} responded to a revoked key with ${response.status} ${response.text}.`,
  )
  return performance.now() - since
})

/** A key that every process has cached is revoked. */
export const keyRevoked: Scenario = {
  name: "key-revoked",
  promise: "A revoked key is refused by every process within a second",
  isInShortRun: true,
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* () {
    const { asOwner } = yield* Cluster
    const key = yield* asOwner(createCustomer("leaving", "pro"))
    for (const app of appHosts) {
      // The first request looks up the key in the database. The other two find it in the process's memory.
      const statuses = yield* Effect.replicateEffect(Effect.map(requestFrom(app, key), ({ status }) => status), 3)
      yield* failUnless(
        statuses.every((status) => status === 200),
        `${app} responded to a new key with ${statuses.join(", ")}.`,
      )
    }
    const id = (yield* asOwner(ApiKeys.listApiKeys({ account: null, unusedFor: null }))).find(({ account }) =>
      account === "leaving"
    )?.key_id
    yield* asOwner(ApiKeys.revokeApiKey(Number(id)))
    const since = performance.now()
    const taken = yield* Effect.forEach(appHosts, (app) => measureRevocation(app, key, since), {
      concurrency: "unbounded",
    })
    // Allows 100 ms more than a second, because a request may start within the second and end after it.
    yield* failUnless(
      Math.max(...taken) <= 1_100,
      `A process accepted the key for ${Math.round(Math.max(...taken))} ms.`,
    )
    return Object.fromEntries(appHosts.map((app, at) => [`${app} refused after (s)`, toSeconds(taken[at] ?? 0)]))
  }),
}

/** A key with a valid checksum that belongs to no account. */
const unknownKey = "tl_live_00000000000000000000000000000000000000"
const guessesPerProcess = 30

/** A client tries to guess API keys by sending many wrong ones. */
export const wrongKeysBlocked: Scenario = {
  name: "wrong-keys",
  promise: "Each process blocks an address after 30 wrong keys",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* () {
    const { hosts } = yield* Cluster
    const from = hosts.addressOf("stranger")
    const responses = yield* Effect.forEach(
      Array.from(
        { length: 4 * guessesPerProcess * appHosts.length },
        (_, at) => appHosts[at % appHosts.length] ?? "app1",
      ),
      (app) => Effect.map(requestFrom(app, unknownKey, from), ({ status }) => status),
    )
    const guesses = responses.filter((status) => status === 401).length
    const expected = guessesPerProcess * appHosts.length
    yield* failUnless(guesses === expected, `${guesses} wrong keys got 401 instead of ${expected}.`)
    yield* failUnless(responses.every((status) => [401, 429].includes(status)), `Statuses: ${responses.join(", ")}`)
    return { "got 401": guesses }
  }),
}

const limitPerMinute = 200

/**
 * Sends more requests than the limit allows to all processes in turn, as fast as possible. Returns the number of
 * allowed requests, and how many requests the bucket's refills made possible in that time.
 */
const sendBurst = Effect.fnUntraced(function* (key: string) {
  const began = performance.now()
  const responses = yield* Effect.forEach(
    Array.from({ length: limitPerMinute * (appHosts.length + 1) }, (_, at) => appHosts[at % appHosts.length] ?? "app1"),
    (app) => requestFrom(app, key),
    { concurrency: 8 },
  )
  const seconds = (performance.now() - began) / 1000
  const unexpected = responses.filter(({ headers, status }) =>
    status !== 200 && !(status === 429 && Number(headers["retry-after"]) > 0)
  )
  yield* failUnless(
    unexpected.length === 0,
    `${unexpected.length} responses were neither 200 nor 429: ${unexpected[0]?.text}`,
  )
  const allowed = responses.filter(({ status }) => status === 200).length
  // A full bucket allows a burst of `limitPerMinute` requests, and gains one request every 60 / `limitPerMinute`
  // seconds.
  return { allowed, refilled: Math.ceil(seconds * limitPerMinute / 60) }
})

/** An account sends more requests than its limit allows, spread over all processes. */
export const sharedRateLimits: Scenario = {
  name: "limits",
  promise: "All processes together enforce one rate limit for an account",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* () {
    const { asOwner } = yield* Cluster
    const { allowed, refilled } = yield* sendBurst(yield* asOwner(createCustomer("eager", "basic")))
    yield* failUnless(
      allowed >= limitPerMinute * 0.9 && allowed <= limitPerMinute + refilled,
      `${allowed} requests were allowed, with a limit of ${limitPerMinute} and ${refilled} refilled meanwhile.`,
    )
    return { allowed, limit: limitPerMinute, refilled }
  }),
}

const recipients = 40

/** The process that sends emails is killed while sending. */
export const emailSenderKilled: Scenario = {
  name: "mails",
  promise:
    "The process that sends emails is killed. A different process continues within seconds, and no email is sent twice",
  maxBrokenRequests: 16,
  maxOutageSeconds: 3,
  run: Effect.fnUntraced(function* ({ clients, recordKill }) {
    const { asOwner, hosts, service } = yield* Cluster
    const { received } = service.mail
    yield* asOwner(Effect.forEach(
      Array.from({ length: recipients }, (_, at) => `reader${at}`),
      (name) => Accounts.ensureAccount({ name, tier: "basic", email: `${name}@example.com`, prepaid: false }),
    ))
    yield* service.command(["announce", "--entry", "ticker-changes", "--include-new-accounts"])
    const waitForEmails = (count: number) =>
      Effect.repeat(Effect.sync(() => received.length), {
        until: (now) => now >= count,
        schedule: Schedule.spaced("10 millis"),
      }).pipe(Effect.timeout("60 seconds"))
    // The process that sends the first emails sends all of them, until it is killed.
    yield* waitForEmails(5)
    const sender = appHosts.find((app) => hosts.addressOf(app) === received[0]?.from) ?? "app1"
    recordKill(sender)
    yield* service.running.get(sender)?.end("SIGKILL") ?? Effect.void
    recordKill(sender)
    const [before, since] = [received.length, performance.now()]
    yield* waitForEmails(before + 1)
    const taken = performance.now() - since
    yield* service.start(sender)
    // Expects one email fewer, because the email in progress may be lost when the process is killed.
    yield* waitForEmails(recipients - 1)
    yield* clients.more(200)
    const addresses = received.flatMap(({ to }) => to)
    yield* failUnless(
      new Set(addresses).size === addresses.length,
      `Some emails were sent twice: ${addresses.join(", ")}`,
    )
    yield* failUnless(taken < 8_000, `No process continued for ${toSeconds(taken)} s.`)
    return { "taken over after (s)": toSeconds(taken), mails: addresses.length }
  }),
}
