/** Tests signing in to the console over a socket, with a real OpenID Connect provider (docs/operations/console.md). */
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Option } from "effect"
import { Headers } from "effect/http"
import { SqlClient } from "effect/sql"
import { generateKeyPairSync } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import Provider from "oidc-provider"
import { createInvitation, listAdminTokens, revokeAdminToken } from "../../../src/operate/admin/AdminTokens.ts"
import { AdminOriginConfig } from "../../../src/operate/admin/AdminSettings.ts"
import { makeInvitationUrl } from "../../../src/operate/console/ConsolePaths.ts"
import { isSameOrigin } from "../../../src/operate/console/ReceivedForm.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { Admin, createToken, makeAdminLayer } from "../../support/Admin.ts"

/** Replaces the header and the signature of the ID token in the provider's response. */
const forge = (body: string, header: string) =>
  body.replace(/"id_token":"[^.]+\.([^.]+)\.[^"]+"/, (_, claims: string) => `"id_token":"${header}.${claims}.AAAA"`)

/** The identity provider's users, with their claims. */
const people: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  alice: { email: "alice@example.com", email_verified: true, groups: ["platform", "helpdesk"] },
  carol: { email: "alice@example.com", email_verified: false, groups: "helpdesk" },
  erin: { email: "alice@example.com", groups: ["helpdesk"] },
  frank: { email: null, groups: ["helpdesk"] },
  grace: { email: "tl-admin", email_verified: true, groups: ["helpdesk"] },
  "h\nx": { groups: ["helpdesk"] },
  dave: { email: "dave@example.com", email_verified: true, groups: ["sales"] },
}

/** Starts an identity provider that has the console on `consolePort` registered as a client. */
const startProvider = Effect.fnUntraced(function* (port: number, consolePort: number, header?: string) {
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
  const handleRequest = provider.callback()
  const respond = (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? "", issuer)
    const accountId = searchParams.get("person")
    if (pathname === "/token" && header !== undefined) {
      const end = response.end.bind(response)
      Object.assign(response, {
        end: (body: unknown) => {
          const forged = forge(String(body), header)
          response.setHeader("content-length", Buffer.byteLength(forged))
          end(forged)
        },
      })
    }
    if (!pathname.startsWith("/login/")) return handleRequest(request, response)
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

interface Cookie {
  readonly host: string
  readonly path: string
  readonly name: string
  readonly value: string
}

/** A minimal browser without scripts, which stores cookies and follows redirects. */
class Visitor {
  #cookies: ReadonlyArray<Cookie> = []
  /** The `Set-Cookie` header lines received so far. */
  readonly received: Array<string> = []

  cookies(host: string) {
    return this.#cookies.filter((cookie) => cookie.host === host)
  }

  readonly visit = (
    url: string,
    { form, headers = {} }: { form?: Record<string, string>; headers?: Record<string, string> } = {},
  ): Promise<{ url: string; status: number; text: string }> => {
    const { host, origin, pathname } = new URL(url)
    const sent = this.cookies(host).filter(({ path }) => pathname.startsWith(path))
    return fetch(url, {
      redirect: "manual",
      headers: {
        ...(sent.length > 0 && { cookie: sent.map(({ name, value }) => `${name}=${value}`).join("; ") }),
        ...(form && { origin }),
        ...headers,
      },
      ...(form && { method: "POST", body: new URLSearchParams(form) }),
    }).then(async (response) => {
      for (const line of response.headers.getSetCookie()) {
        this.received.push(line)
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        const path = /; ?path=([^;]*)/i.exec(line)?.[1] ?? "/"
        const others = this.#cookies.filter((one) => one.host !== host || one.name !== name || one.path !== path)
        const isDeleted = value === "" || /max-age=0/i.test(line)
        this.#cookies = isDeleted ? others : [...others, { host, path, name, value }]
      }
      const location = response.headers.get("location")
      if (location === null) return { url, status: response.status, text: await response.text() }
      const target = new URL(location, url).href
      // Does not load the pages after sign-in, which these tests do not cover.
      return /\/console\/(?!sign-in)/.test(target) ? { url: target, status: 303, text: "" } : this.visit(target)
    })
  }
}

/** Follows the console's sign-in link and signs in at the provider as the given person. */
const signInAs = async (visitor: Visitor, origin: string, person: string, to = "/console/") => {
  const login = await visitor.visit(`${origin}/console/sign-in/openid?${new URLSearchParams({ to }).toString()}`)
  assert.include(login.url, "/login/", login.text)
  return visitor.visit(`${login.url}?${new URLSearchParams({ person }).toString()}`)
}

const sessionOf = (visitor: Visitor, url: string) =>
  visitor.cookies(new URL(url).host).find(({ name }) => name === "tickerline_admin")?.value ?? ""

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
      const found = (yield* listAdminTokens()).find(({ kind, name }) => kind === "token" && name === "sam 2")
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

  it.effect("signs in once with an invitation, even if it is used twice at the same time (operations/console)", () =>
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

      // An email address that the provider has not verified may belong to somebody else.
      for (const name of ["carol", "erin", "frank", "grace"]) {
        const visitor = new Visitor()
        yield* Effect.promise(() => signInAs(visitor, origin, name))
        assert.deepInclude((yield* send("/me", { token: sessionOf(visitor, origin) })).body, { name, scope: "support" })
      }
      const nameless = yield* Effect.promise(() => signInAs(new Visitor(), origin, "h\nx"))
      assert.strictEqual(nameless.status, 502)

      const refused = yield* Effect.promise(() => signInAs(new Visitor(), origin, "dave"))
      assert.strictEqual(refused.status, 403)
      assert.include(refused.text, "dave@example.com is in no group")
    }).pipe(Effect.scoped))

  it.effect("refuses a response from the provider that this browser did not request (operations/console)", () =>
    Effect.gen(function* () {
      const { port } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      yield* startProvider(yield* providerPort, port)
      const visitor = new Visitor()
      const callback = `${origin}/console/sign-in/callback`
      const login = yield* Effect.promise(() => visitor.visit(`${origin}/console/sign-in/openid`))
      assert.strictEqual(login.status, 200)
      const pending = visitor.cookies(new URL(origin).host).find(({ name }) => name.startsWith("tickerline_sign_in_"))
      const state = `${pending?.name.replace("tickerline_sign_in_", "")}y`
      for (const query of [`code=x&state=${state}`, `error=access_denied&state=${state}`]) {
        const { status, text } = yield* Effect.promise(() => visitor.visit(`${callback}?${query}`))
        assert.strictEqual(status, 403, query)
        assert.include(text, "did not confirm who you are", query)
      }
      for (const query of ["code=x&state=y", "error=access_denied", ""]) {
        const { status, text } = yield* Effect.promise(() => visitor.visit(`${callback}?${query}`))
        assert.strictEqual(status, 403, query)
        assert.include(text, "not begun in this browser", query)
      }
      assert.strictEqual(sessionOf(visitor, origin), "")
    }).pipe(Effect.scoped))

  it.effect("refuses ID tokens whose signature is wrong or missing (operations/console)", () =>
    Effect.gen(function* () {
      const { port } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      for (const alg of ["ES256", "none", "HS256"]) {
        yield* Effect.scoped(Effect.gen(function* () {
          const header = Buffer.from(JSON.stringify({ alg })).toString("base64url")
          yield* startProvider(yield* providerPort, port, header)
          const visitor = new Visitor()
          const { status } = yield* Effect.promise(() => signInAs(visitor, origin, "alice"))
          assert.include([403, 502], status, alg)
          assert.strictEqual(sessionOf(visitor, origin), "", alg)
        }))
      }
    }))

  it.effect("begins sign-ins in two tabs, and repeats no form after the next sign-in (operations/console)", () =>
    Effect.gen(function* () {
      const { port, send, tokens } = yield* Admin
      const origin = `http://127.0.0.1:${port}`
      yield* startProvider(yield* providerPort, port)
      const visitor = new Visitor()
      const logins = yield* Effect.promise(async () => {
        const first = await visitor.visit(`${origin}/console/sign-in/openid?to=%2Fconsole%2Fkeys`)
        return [first, await visitor.visit(`${origin}/console/sign-in/openid?to=%2Fconsole%2Faudit`)]
      })
      for (const login of logins) {
        const { url } = yield* Effect.promise(() => visitor.visit(`${login.url}?person=alice`))
        assert.match(url, /console\/(keys|audit)$/)
      }
      const page = `${origin}/console/sign-in`
      const created: Array<unknown> = []
      for (let round = 0; round < 2; round += 1) {
        const other = new Visitor()
        yield* Effect.promise(() => other.visit(page, { form: { token: tokens.admin } }))
        const { body } = yield* send("/accounts", {
          method: "POST",
          body: { name: "once", tier: "pro" },
          headers: { "idempotency-key": "the-same-form" },
          token: sessionOf(other, page),
        })
        created.push(body)
      }
      assert.include(JSON.stringify(created[0]), `"name":"once"`)
      assert.deepStrictEqual(created[1], created[0])
      assert.include((yield* Effect.promise(() => visitor.visit(`${page}?form=1`))).text, "the form was not saved")
    }).pipe(Effect.scoped))

  it.effect("stops reading a response of the provider that does not end (SECURITY.md)", () =>
    Effect.gen(function* () {
      const { port } = yield* Admin
      const chunk = Buffer.alloc(1024 * 1024, "x")
      let sent = 0
      const stream = (response: ServerResponse) => {
        if (response.destroyed) return
        sent += chunk.length
        response.write(chunk, () => stream(response))
      }
      const providerAt = yield* providerPort
      yield* Effect.acquireRelease(
        Effect.promise(() =>
          new Promise<ReturnType<typeof createServer>>((resolve) => {
            const server = createServer((_, response) => stream(response.writeHead(200)))
            server.listen(providerAt, "127.0.0.1", () => resolve(server))
          })
        ),
        (server) => Effect.promise(() => new Promise((resolve) => server.close(resolve).closeAllConnections())),
      )
      const begin = `http://127.0.0.1:${port}/console/sign-in/openid`
      const { status } = yield* Effect.promise(() => new Visitor().visit(begin))
      assert.strictEqual(status, 502)
      assert.isAbove(sent, 0)
      assert.isBelow(sent, 64 * 1024 * 1024)
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
