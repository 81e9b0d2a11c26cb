/** Sign-in to the console over a socket, with a real OpenID Connect provider (docs/operations/console.md). */
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Option } from "effect"
import { Headers } from "effect/http"
import { SqlClient } from "effect/sql"
import { generateKeyPairSync } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import Provider from "oidc-provider"
import { createInvitation, listAdminTokens, revokeAdminToken } from "../../src/admin/AdminTokens.ts"
import { AdminOriginConfig } from "../../src/admin/AdminSettings.ts"
import { makeInvitationUrl } from "../../src/console/ConsolePaths.ts"
import { isSameOrigin } from "../../src/console/SameOrigin.ts"
import { chooseFreePort } from "../../src/db/embedded/EmbeddedCluster.ts"
import { Admin, createToken, makeAdminLayer } from "../support/Admin.ts"

/** The people whom the provider knows. */
const people: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  alice: { email: "alice@example.com", email_verified: true, groups: ["platform", "helpdesk"] },
  carol: { email: "alice@example.com", email_verified: false, groups: "helpdesk" },
  dave: { email: "dave@example.com", email_verified: true, groups: ["sales"] },
}

/** Starts a provider that knows the console at the port. */
const startProvider = Effect.fnUntraced(function* (port: number, consolePort: number) {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const issuer = `http://127.0.0.1:${port}`
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "console",
      client_secret: "a secret with % and :",
      redirect_uris: [`http://127.0.0.1:${consolePort}/console/sign-in/callback`],
      id_token_signed_response_alg: "ES256",
    }],
    jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "ES256" }] },
    cookies: { keys: ["test"] },
    scopes: ["openid", "email", "groups"],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
    loadExistingGrant: async ({ oidc }) => {
      const grant = new provider.Grant({
        ...(oidc.client !== undefined && { clientId: oidc.client.clientId }),
        ...(oidc.session?.accountId !== undefined && { accountId: oidc.session.accountId }),
      })
      grant.addOIDCScope("openid email groups")
      await grant.save()
      return grant
    },
    pkce: { required: () => true },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/login/${uid}` },
  })
  const answer = provider.callback()
  const respond = (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? "", issuer)
    const accountId = searchParams.get("person")
    if (!pathname.startsWith("/login/")) return answer(request, response)
    if (accountId === null) return response.end("login")
    return provider.interactionFinished(request, response, { login: { accountId } })
  }
  yield* Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<ReturnType<typeof createServer>>((resolve) => {
        const server = createServer((request, response) => void respond(request, response))
        server.listen(port, "127.0.0.1", () => resolve(server))
      })
    ),
    (server) => Effect.promise(() => new Promise((resolve) => server.close(resolve).closeAllConnections())),
  )
  return issuer
})

/** A browser without scripts: keeps cookies of each host, and follows redirects. */
class Visitor {
  readonly #cookies = new Map<string, Map<string, string>>()
  /** Addresses visited, with the status of each response. */
  readonly visited: Array<string> = []
  /** Attributes of the cookies received. */
  readonly received: Array<string> = []

  cookie(url: string, name: string) {
    return this.#cookies.get(new URL(url).host)?.get(name)
  }

  readonly visit = (
    url: string,
    { form, headers = {} }: { form?: Record<string, string>; headers?: Record<string, string> } = {},
  ): Promise<{ url: string; status: number; text: string }> => {
    const { host, origin } = new URL(url)
    const cookies = [...this.#cookies.get(host) ?? []].map(([name, value]) => `${name}=${value}`).join("; ")
    return fetch(url, {
      redirect: "manual",
      headers: { ...(cookies !== "" && { cookie: cookies }), ...(form && { origin }), ...headers },
      ...(form && { method: "POST", body: new URLSearchParams(form) }),
    }).then(async (response) => {
      const jar = this.#cookies.get(host) ?? new Map<string, string>()
      this.#cookies.set(host, jar)
      for (const line of response.headers.getSetCookie()) {
        this.received.push(line)
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        if (value === "" || /max-age=0/i.test(line)) jar.delete(name)
        else jar.set(name, value)
      }
      this.visited.push(`${response.status} ${new URL(url).pathname}`)
      const location = response.headers.get("location")
      if (location === null) return { url, status: response.status, text: await response.text() }
      const target = new URL(location, url).href
      // The pages after the sign-in are not part of these tests.
      return /\/console\/(?!sign-in)/.test(target) ? { url: target, status: 303, text: "" } : this.visit(target)
    })
  }
}

/** Signs in at the provider as a person, from the link of the console. */
const signInAs = async (visitor: Visitor, origin: string, person: string, to = "/console/") => {
  const login = await visitor.visit(`${origin}/console/sign-in/openid?${new URLSearchParams({ to }).toString()}`)
  assert.include(login.url, "/login/", login.text)
  return visitor.visit(`${login.url}?person=${person}`)
}

const sessionOf = (visitor: Visitor, url: string) => visitor.cookie(url, "tickerline_admin") ?? ""

const providerPort = Effect.runSync(Effect.cached(chooseFreePort))

const TestLayer = Layer.unwrap(Effect.map(providerPort, (port) =>
  makeAdminLayer(() => ({
    ADMIN_OIDC_ISSUER: `http://127.0.0.1:${port}`,
    ADMIN_OIDC_CLIENT_ID: "console",
    ADMIN_OIDC_CLIENT_SECRET: "a secret with % and :",
    ADMIN_OIDC_GROUPS: "platform=admin,helpdesk=support",
    ADMIN_OIDC_SCOPES: "openid email groups",
  }))))

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("sign-in to the console", (it) => {
  it.effect("opens a session with a token, which ends with the token, unused or on request (operations/console)", () =>
    Effect.gen(function* () {
      const { port, send, tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const page = `http://127.0.0.1:${port}/console/sign-in`
      const open = Effect.fnUntraced(function* (token: string, to = "/console/keys?account=a") {
        const visitor = new Visitor()
        const { status, url } = yield* Effect.promise(() => visitor.visit(page, { form: { token, to } }))
        return { visitor, status, to: url.slice(new URL(url).origin.length), session: sessionOf(visitor, page) }
      })
      const me = (token: string) => Effect.map(send("/me", { token }), ({ status }) => status)

      const sam = yield* createToken("sam 2", "support")
      const first = yield* open(sam)
      assert.deepStrictEqual([first.status, first.to], [303, "/console/keys?account=a"])
      assert.match(first.visitor.received.join(), /; Path=\/console; HttpOnly; SameSite=Lax$/)
      assert.deepInclude((yield* send("/me", { token: first.session })).body, {
        kind: "session",
        name: "sam 2",
        scope: "support",
      })
      assert.strictEqual((yield* send("/accounts", { method: "POST", body: {}, token: first.session })).status, 403)
      for (const to of ["//example.com/console/", "https://example.com", "/v1/me", "/console/../v1/me", "\\\\a"]) {
        assert.strictEqual((yield* open(sam, to)).to, "/console/", to)
      }
      for (const wrong of ["", "tl_admin_x", first.session, `${sam}x`]) {
        assert.deepStrictEqual((yield* open(wrong)).status, 403, wrong)
      }

      const second = yield* open(sam)
      yield* sql`update admin_tokens set last_used_at = now() - interval '59 minutes' where kind = 'session'`
      assert.deepStrictEqual([yield* me(second.session), yield* me(first.session)], [200, 200])
      yield* sql`
        update admin_tokens set last_used_at = now() - interval '61 minutes'
        where token_hint = ${second.session.slice(0, 13)} and kind = 'session'
      `
      assert.strictEqual(yield* me(second.session), 401)

      assert.strictEqual((yield* send("/me/revoke", { method: "POST", token: first.session })).status, 204)
      assert.strictEqual(yield* me(first.session), 401)

      const third = yield* open(sam)
      assert.strictEqual(yield* me(third.session), 200)
      const found = (yield* listAdminTokens).find(({ kind, name }) => kind === "token" && name === "sam 2")
      yield* revokeAdminToken(found?.token_id ?? 0)
      assert.strictEqual(yield* me(third.session), 401)
      assert.strictEqual(yield* me(tokens.support), 200)
    }))

  it.effect("refuses forms of other sites (operations/console)", () =>
    Effect.gen(function* () {
      const { port, tokens } = yield* Admin
      const page = `http://127.0.0.1:${port}/console/sign-in`
      const post = (headers: Record<string, string>) =>
        Effect.promise(() => new Visitor().visit(page, { form: { token: tokens.read }, headers }))
      for (
        const headers of [
          { origin: "https://example.com" },
          { origin: "null" },
          { origin: `http://127.0.0.1:${port + 1}` },
          { "sec-fetch-site": "same-site" },
          { "sec-fetch-site": "cross-site" },
        ]
      ) assert.strictEqual((yield* post(headers)).status, 403, JSON.stringify(headers))
      assert.strictEqual((yield* post({})).status, 303)
      assert.isFalse(isSameOrigin(Headers.fromInput({ host: "a" }), "http://a"))
      assert.isTrue(
        isSameOrigin(
          Headers.fromInput({ host: "internal:8081", origin: "https://admin.example.com" }),
          "https://admin.example.com",
        ),
      )
    }))

  it.effect("signs in once with an invitation, also if it is used twice at the same time (operations/console)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      const secret = yield* createInvitation({ name: "ivy <b>", scope: "admin", created_by: "root" })
      const link = makeInvitationUrl(origin, secret)
      const shown = yield* Effect.promise(() => Promise.all([new Visitor().visit(link), new Visitor().visit(link)]))
      assert.deepStrictEqual(shown.map(({ status }) => status), [200, 200])
      assert.include(shown[0]?.text, "ivy &lt;b&gt;")

      const visitors = Array.from({ length: 4 }, () => new Visitor())
      const results = yield* Effect.promise(() =>
        Promise.all(
          visitors.map((visitor) =>
            visitor.visit(`${origin}/console/sign-in/invitation`, { form: { invitation: secret } })
          ),
        )
      )
      assert.deepStrictEqual(results.map(({ status }) => status).toSorted(), [303, 403, 403, 403])
      const session = visitors.map((visitor) => sessionOf(visitor, origin)).find((session) => session !== "") ?? ""
      assert.deepInclude((yield* send("/me", { token: session })).body, { name: "ivy <b>" })
      assert.strictEqual((yield* Effect.promise(() => new Visitor().visit(link))).status, 403)
      assert.strictEqual((yield* send("/me", { token: secret })).status, 401)

      const sql = yield* SqlClient.SqlClient
      const changes = yield* sql`
        select actor, operation from audit where subject = 'ivy <b>' and via = 'admin' order by audit_id
      `
      const change = { actor: "ivy <b>", operation: "sign in with an invitation" }
      assert.deepStrictEqual(changes, [change, change])
      const expired = yield* createInvitation({ name: "late", scope: "admin", created_by: "root" })
      yield* sql`update admin_tokens set expires_at = now() where name = 'late'`
      assert.strictEqual(
        (yield* Effect.promise(() => new Visitor().visit(makeInvitationUrl(origin, expired)))).status,
        403,
      )
    }))

  it.effect("signs in with OpenID Connect, whose groups decide the scope (operations/console)", () =>
    Effect.gen(function* () {
      const { port, send } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const origin = `http://127.0.0.1:${port}`
      yield* startProvider(yield* providerPort, port)

      const alice = new Visitor()
      const { url } = yield* Effect.promise(() => signInAs(alice, origin, "alice", "/console/audit"))
      assert.strictEqual(url, `${origin}/console/audit`)
      assert.deepInclude((yield* send("/me", { token: sessionOf(alice, origin) })).body, {
        name: "alice@example.com",
        scope: "admin",
      })
      const [signedIn] = yield* sql`
        select actor, operation, "after" ->> 'created_by' as created_by, "after"::text like '%tl_session_%' as has_hint
        from audit where subject = 'alice@example.com'
      `
      assert.deepStrictEqual(signedIn, {
        actor: "alice@example.com",
        operation: "sign in with OpenID Connect",
        created_by: "OpenID Connect alice",
        has_hint: true,
      })

      // An address that the provider has not verified may be somebody else's.
      const carol = new Visitor()
      yield* Effect.promise(() => signInAs(carol, origin, "carol"))
      assert.deepInclude((yield* send("/me", { token: sessionOf(carol, origin) })).body, {
        name: "carol",
        scope: "support",
      })

      const refused = yield* Effect.promise(() => signInAs(new Visitor(), origin, "dave"))
      assert.strictEqual(refused.status, 403)
      assert.include(refused.text, "dave@example.com is in no group")
    }).pipe(Effect.scoped))

  it.effect("refuses an answer of the provider that this browser has not asked for (operations/console)", () =>
    Effect.gen(function* () {
      const { port } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      yield* startProvider(yield* providerPort, port)
      const visitor = new Visitor()
      const callback = `${origin}/console/sign-in/callback`
      const login = yield* Effect.promise(() => visitor.visit(`${origin}/console/sign-in/openid`))
      assert.strictEqual(login.status, 200)
      for (const query of ["code=x&state=y", "error=access_denied", "error=access_denied&state=y", ""]) {
        const { status, text } = yield* Effect.promise(() => visitor.visit(`${callback}?${query}`))
        assert.strictEqual(status, 403, query)
        assert.include(text, "did not confirm who you are", query)
      }
      const elsewhere = yield* Effect.promise(() => new Visitor().visit(`${callback}?code=x&state=y`))
      assert.strictEqual(elsewhere.status, 403)
      assert.include(elsewhere.text, "not begun in this browser")
      assert.strictEqual(sessionOf(visitor, origin), "")
    }).pipe(Effect.scoped))

  it.effect("offers the other ways if the provider is down (operations/console)", () =>
    Effect.gen(function* () {
      const { port, tokens } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      const visitor = new Visitor()
      const { status, text } = yield* Effect.promise(() => visitor.visit(`${origin}/console/sign-in/openid`))
      assert.strictEqual(status, 502)
      assert.include(text, "The identity provider cannot be reached")
      assert.include(text, `name="token"`)
      const signedIn = yield* Effect.promise(() =>
        visitor.visit(`${origin}/console/sign-in`, { form: { token: tokens.read } })
      )
      assert.strictEqual(signedIn.status, 303)
    }))
})

layer(makeAdminLayer(() => ({ ADMIN_URL: "https://admin.example.com" })), {
  excludeTestServices: true,
  timeout: "120 seconds",
})("console behind a proxy with TLS", (it) => {
  it.effect("sends its cookie only over TLS (operations/console)", () =>
    Effect.gen(function* () {
      const { port, tokens } = yield* Admin
      const visitor = new Visitor()
      const page = `http://127.0.0.1:${port}/console/sign-in`
      yield* Effect.promise(() =>
        visitor.visit(page, { form: { token: tokens.read }, headers: { origin: "https://admin.example.com" } })
      )
      assert.match(visitor.received.join(), /Secure/)
      const settings = (values: Record<string, string>) =>
        Effect.map(
          AdminOriginConfig.pipe(
            Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(values)),
          ),
          Option.getOrNull,
        )
      assert.strictEqual(yield* settings({}), null)
      assert.strictEqual(yield* settings({ ADMIN_PORT: "1" }), "http://127.0.0.1:1")
      assert.strictEqual(yield* settings({ ADMIN_PORT: "1", ADMIN_HOST: "::1" }), "http://[::1]:1")
      assert.strictEqual(yield* settings({ ADMIN_PORT: "1", ADMIN_HOST: "0.0.0.0" }), "http://localhost:1")
    }))
})
