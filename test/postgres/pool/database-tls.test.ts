/**
 * Tests TLS connections to a real PostgreSQL server whose certificate is signed by a private CA, and to one without
 * TLS.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Context, Effect, FileSystem, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { embeddedDatabaseUser } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { serverDatabaseClientLayer } from "../../../src/postgres/ConnectionLayers.ts"
import { summarizeError } from "../../../src/operate/cli/ErrorReport.ts"
import { makeAuthority, signCertificate } from "../../support/Certificates.ts"
import { makeServerControls, type PostgresServer } from "../../support/DedicatedPostgres.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { makePostgresCluster } from "../../support/PostgresCluster.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

type Environment = Readonly<Record<string, string>>

class TlsServer extends Context.Service<TlsServer, {
  readonly server: PostgresServer
  /** The folder that contains `ca.pem`, `other.pem`, `client.pem`, `client.key` and `broken.pem`. */
  readonly folder: string
  /** Returns the database URL with the given host name. */
  readonly urlAt: (host: string, parameters?: string) => string
}>()("test/postgres/pool/TlsServer") {
  static readonly layer = Layer.effect(
    TlsServer,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-tls-" })
      yield* fs.chmod(folder, 0o755)
      const authority = makeAuthority(folder, "ca")
      makeAuthority(folder, "other")
      signCertificate(folder, "client", authority, "DNS:client")
      yield* fs.writeFileString(
        `${folder}/broken.pem`,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
      )
      const cluster = yield* makePostgresCluster(`${folder}/home`)
      const { certificate, key } = signCertificate(folder, "localhost", authority, "DNS:localhost")
      // PostgreSQL accepts only a key file that is owned by its own user.
      for (const [from, to] of [[certificate, "server.crt"], [key, "server.key"]] as const) {
        yield* fs.copyFile(from, `${cluster.dataDirectory}/${to}`)
        yield* fs.chmod(`${cluster.dataDirectory}/${to}`, 0o600)
        const user = cluster.systemUser
        if (user !== undefined) yield* fs.chown(`${cluster.dataDirectory}/${to}`, user.uid, user.gid)
      }
      yield* fs.writeFileString(
        `${cluster.dataDirectory}/postgresql.conf`,
        `ssl = on\nssl_ca_file = '${authority.certificate}'\nfsync = off\n`,
        { flag: "a" },
      )
      const users = yield* fs.readFileString(`${cluster.dataDirectory}/pg_hba.conf`)
      yield* fs.writeFileString(
        `${cluster.dataDirectory}/pg_hba.conf`,
        `hostssl strict all all scram-sha-256 clientcert=verify-ca\n${users}`,
      )
      const port = yield* chooseFreePort
      const server = yield* makeServerControls(cluster, port)
      yield* server.start
      const urlAt = (host: string, parameters = "") =>
        `postgres://${embeddedDatabaseUser}:${cluster.password}@${host}:${port}/postgres${parameters}`
      return { server, folder, urlAt }
    }),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/** Reads whether this session is encrypted, and the subject of its client certificate. */
const readEncryption = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<{ readonly ssl: boolean; readonly client: string | null }>`
    select ssl, client_dn as client from pg_stat_ssl where pid = pg_backend_pid()
  `,
)

/** Connects the way the service does. Returns `encrypted`, `plain`, or the error message. */
const connect = (DATABASE_URL: string, environment: Environment = {}) =>
  readEncryption.pipe(
    Effect.provide(Layer.fresh(serverDatabaseClientLayer("tickerline-test"))),
    Effect.map(([row]) => row?.ssl === true ? `encrypted${row.client ?? ""}` : "plain"),
    Effect.catch((error) => Effect.succeed(summarizeError(error) ?? "no message")),
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromUnknown({ DATABASE_URL, DATABASE_POOL_SIZE: "1", ...environment }),
    ),
  )

layer(TlsServer.layer, { excludeTestServices: true, timeout: "120 seconds" })("TLS to PostgreSQL", (it) => {
  const untrusted = /self-signed certificate|unable to (get|verify)/
  const connections: ReadonlyArray<
    readonly [host: string, parameters: string, authority: "none" | "ca" | "other", result: string | RegExp]
  > = [
    ["localhost", "", "none", "plain"],
    ["localhost", "sslmode=disable", "none", "plain"],
    ["localhost", "sslmode=disable", "ca", "plain"],
    ["localhost", "sslmode=allow", "none", "encrypted"],
    ["localhost", "sslmode=prefer", "none", "encrypted"],
    ["127.0.0.1", "sslmode=prefer", "other", "encrypted"],
    ["localhost", "sslmode=require", "none", "encrypted"],
    ["127.0.0.1", "sslmode=require", "ca", "encrypted"],
    ["localhost", "sslmode=require", "other", untrusted],
    ["127.0.0.1", "sslmode=verify-ca", "ca", "encrypted"],
    ["localhost", "sslmode=verify-ca", "other", untrusted],
    ["localhost", "sslmode=verify-full", "ca", "encrypted"],
    ["127.0.0.1", "sslmode=verify-full", "ca", /does not match certificate's altnames.*127\.0\.0\.1/],
    ["localhost", "sslmode=verify-full", "other", untrusted],
    ["localhost", "sslmode=verify-full", "none", untrusted],
    ["localhost", "sslrootcert=system", "none", untrusted],
  ]

  it.effect.each(connections.map(([host, parameters, authority, result]) => ({ host, parameters, authority, result })))(
    'follows libpq\'s documentation for $host with "$parameters" and the root certificate $authority: $result (operations/deployment)',
    ({ authority, host, parameters, result }) =>
      Effect.gen(function* () {
        const { folder, urlAt } = yield* TlsServer
        const all = [
          ...(parameters === "" ? [] : [parameters]),
          ...(authority === "none" ? [] : [`sslrootcert=${folder}/${authority}.pem`]),
        ]
        const found = yield* connect(urlAt(host, all.length === 0 ? "" : `?${all.join("&")}`))
        if (typeof result === "string") assert.strictEqual(found, result)
        else assert.match(found, result)
      }),
  )

  it.effect("takes what the URL omits from PGSSLMODE and PGSSLROOTCERT, except for the embedded server (operations/settings)", () =>
    Effect.gen(function* () {
      const { folder, urlAt } = yield* TlsServer
      const strict = { PGSSLMODE: "verify-full", PGSSLROOTCERT: `${folder}/ca.pem` }
      assert.strictEqual(yield* connect(urlAt("localhost"), strict), "encrypted")
      assert.match(yield* connect(urlAt("127.0.0.1"), strict), /altnames/)
      assert.strictEqual(yield* connect(urlAt("127.0.0.1", "?sslmode=disable"), strict), "plain")
      assert.match(
        yield* connect(urlAt("localhost", `?sslrootcert=${folder}/other.pem`), strict),
        /self-signed certificate|unable to/,
      )
    }))

  it.effect("carries long statements and results with sslmode=prefer, encrypted or not (operations/deployment)", () =>
    Effect.gen(function* () {
      const { urlAt } = yield* TlsServer
      const sentLength = 3_000_000
      const text = "x".repeat(sentLength)
      for (const url of [urlAt("localhost", "?sslmode=prefer"), `${yield* Service.databaseUrl}?sslmode=prefer`]) {
        const lengths = yield* Effect.flatMap(SqlClient.SqlClient, (sql) =>
          Effect.all([
            sql`select length(${text}) as length`,
            sql.unsafe<{ readonly text: string }>("select repeat('y', 1000) as text from generate_series(1, 20000)"),
          ])).pipe(
            Effect.map(([[sent], received]) => [sent, received.reduce((sum, { text }) => sum + text.length, 0)]),
            Effect.provide(Layer.fresh(serverDatabaseClientLayer("tickerline-test"))),
            Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({ DATABASE_URL: url })),
          )
        assert.deepStrictEqual(lengths, [{ length: sentLength }, 20_000 * 1_000])
      }
    }).pipe(Effect.provide(Layer.fresh(ServiceInstances.databaseWithKeysLayer))))

  it.effect("sends the certificate in sslcert (operations/deployment)", () =>
    Effect.gen(function* () {
      const { folder, urlAt } = yield* TlsServer
      const files = `&sslcert=${folder}/client.pem&sslkey=${folder}/client.key`
      for (const mode of ["require", "prefer"]) {
        assert.strictEqual(yield* connect(urlAt("localhost", `?sslmode=${mode}${files}`)), "encrypted/CN=client")
      }
    }))

  it.effect("refuses settings that would encrypt less than they promise, and names the correction (operations/settings)", () =>
    Effect.gen(function* () {
      const { folder, urlAt } = yield* TlsServer
      const refusals: ReadonlyArray<readonly [string, RegExp]> = [
        [`?sslrootcert=${folder}/ca.pem`, /no sslmode says how.*sslmode=verify-full/],
        ["?sslmode=verify-ca", /verify-ca needs sslrootcert/],
        ["?sslmode=require&sslrootcert=system", /sslrootcert=system needs sslmode=verify-full, not require/],
        ["?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", /sslrootcert .*\/nowhere\/ca\.pem, .*ENOENT/],
        [`?sslmode=verify-full&sslrootcert=${folder}/broken.pem`, /broken\.pem.*PEM format/],
        [`?sslmode=require&sslcert=${folder}/client.pem`, /sslcert and sslkey belong together/],
        [`?sslmode=require&sslcert=${folder}/client.pem&sslkey=${folder}/ca.key`, /key must belong/],
      ]
      for (const [parameters, message] of refusals) {
        assert.match(yield* connect(urlAt("localhost", parameters)), message, parameters)
      }
      const invalid = [
        "sslmode=verify",
        "sslmode=",
        "sslcrl=x.pem",
        "ssl=true",
        "channel_binding=require",
        "sslrootcert=",
      ]
      for (const parameter of invalid) {
        for (const name of ["DATABASE_URL", "DATABASE_DIRECT_URL", "DATABASE_READ_URLS"]) {
          const url = urlAt("localhost", `?${parameter}`)
          const { code, err } = yield* runCommandInProcess(["serve"], { DATABASE_URL: urlAt("localhost"), [name]: url })
          assert.strictEqual(code, 1, parameter)
          assert.match(err, new RegExp(`^tickerline: ${name} is .*sslmode must be disable, allow`), parameter)
        }
      }
      const { err } = yield* runCommandInProcess(["serve"], { DATABASE_URL: urlAt("localhost"), PGSSLMODE: "full" })
      assert.match(err, /^tickerline: PGSSLMODE is "full", but must be "disable", /)
    }))

  it.effect("reports in doctor how the connection is encrypted and verified (operations/command-line)", () =>
    Effect.gen(function* () {
      const { folder, urlAt } = yield* TlsServer
      const find = (parameters: string) =>
        Effect.map(
          runCommandInProcess(["doctor"], { DATABASE_URL: urlAt("localhost", parameters) }),
          ({ out }) => /encryption: (.*)/.exec(out)?.[1],
        )
      assert.match(
        (yield* find(`?sslmode=verify-full&sslrootcert=${folder}/ca.pem`)) ?? "",
        /^TLSv1\.\d; sslmode=verify-full verifies the certificate and host name with .*ca\.pem$/,
      )
      assert.match((yield* find("?sslmode=prefer")) ?? "", /sslmode=prefer does not verify the server's certificate$/)
      assert.isUndefined(yield* find(""))
    }))
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("Without TLS on the server", (it) => {
  it.effect("only disable, allow and prefer connect (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = new URL(yield* Service.databaseUrl)
      for (const mode of ["disable", "allow", "prefer", "require", "verify-full"]) {
        url.searchParams.set("sslmode", mode)
        const found = yield* connect(url.href)
        if (["disable", "allow", "prefer"].includes(mode)) assert.strictEqual(found, "plain", mode)
        else assert.match(found, /DATABASE_URL: no connection .*The server does not support TLS/, mode)
      }
    }))
})
