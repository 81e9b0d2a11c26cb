/**
 * TLS connections to PostgreSQL. The URL parameters `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, and the
 * environment variables `PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT` and `PGSSLKEY`, have the same meaning as in libpq
 * (docs/operations/deployment.md).
 */
import { Config, Data, Effect, Option, Redacted, Schema } from "effect"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { Socket } from "node:net"
import { type Duplex, duplexPair, pipeline } from "node:stream"
import { connect, type ConnectionOptions, createSecureContext, getCACertificates } from "node:tls"
import { makeSocketRegistry, parseDatabaseAddress } from "../health/SocketRegistry.ts"

/** The values of `sslmode`, from least to most secure. */
export const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const
const SslMode = Schema.Literals(sslModes)

/** The default `sslmode` for URLs without one. */
export const SslModeConfig = Config.option(Config.schema(SslMode, "PGSSLMODE"))
/** The default `sslrootcert`: a file of trusted certificate authorities, or `system`. */
export const SslRootCertificateConfig = Config.option(Config.NonEmptyString("PGSSLROOTCERT"))
/** The default `sslcert`: the client certificate file. */
export const SslCertificateConfig = Config.option(Config.NonEmptyString("PGSSLCERT"))
/** The default `sslkey`: the client's private key file. */
export const SslKeyConfig = Config.option(Config.NonEmptyString("PGSSLKEY"))

/** The certificates or TLS settings cannot be used. The message tells the operator how to fix the problem. */
export class DatabaseTlsError extends Data.TaggedError("DatabaseTlsError")<{ readonly message: string }> {}

const supportedParameters = new Set(["sslmode", "sslrootcert", "sslcert", "sslkey"])

const isSslMode = Schema.is(SslMode)

/**
 * Checks whether all TLS parameters in the URL are supported. Ignoring an unsupported one could silently weaken the
 * encryption.
 */
export const areTlsParametersValid = (url: string) =>
  Array.from(new URL(url).searchParams).every(([name, value]) =>
    name === "sslmode"
      ? isSslMode(value)
      : name === "channel_binding"
      ? value !== "require"
      : supportedParameters.has(name)
      ? value !== ""
      : !/^(ssl|requiressl)/.test(name)
  )

/** Describes what `areTlsParametersValid` requires, for error messages. */
export const tlsParametersRule = `sslmode must be ${sslModes.join(", ")}; of the other parameters for TLS, only ` +
  "sslrootcert, sslcert and sslkey are supported, each with a value"

/**
 * Reads the TLS parameters `sslmode`, `sslrootcert`, `sslcert` and `sslkey` from the URL, or from the `PGSSL…`
 * environment variables if they are not in the URL. Returns the mode and the certificate files. Fails if the parameters
 * contradict each other. As in libpq, Unix sockets never use TLS. If no mode is given, `sslrootcert=system` implies
 * `verify-full`, and otherwise TLS is disabled.
 */
export const readTlsSettings = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const address = Redacted.value(url)
  const parameters = new Map(new URL(address).searchParams)
  const read = <A extends string>(name: string, variable: Config.Config<Option.Option<A>>) =>
    Effect.map(variable, (value) => parameters.get(name) ?? Option.getOrUndefined(value))
  /** A file of trusted certificate authorities, or `system`. */
  const rootCertificate = yield* read("sslrootcert", SslRootCertificateConfig)
  const certificate = yield* read("sslcert", SslCertificateConfig)
  const key = yield* read("sslkey", SslKeyConfig)
  const configuredMode = yield* read("sslmode", SslModeConfig)
  const chosen = "path" in parseDatabaseAddress(address)
    ? "disable"
    : configuredMode ?? (rootCertificate === "system" ? "verify-full" : undefined)
  if (chosen === undefined && [rootCertificate, certificate, key].some((file) => file !== undefined)) {
    return yield* new DatabaseTlsError({
      message: "A database URL or a PGSSL variable names certificates, but no sslmode says how to use them. " +
        "Add sslmode=verify-full to the URL, or set PGSSLMODE=verify-full.",
    })
  }
  // `chosen` is a valid mode or undefined. An unknown mode never gets this far and so cannot disable TLS: the setting
  // with the URL is refused (`areTlsParametersValid`), and so is `PGSSLMODE` (`SslModeConfig`).
  const mode = isSslMode(chosen) ? chosen : "disable"
  if (mode === "verify-ca" && rootCertificate === undefined) {
    return yield* new DatabaseTlsError({
      message: "sslmode=verify-ca needs sslrootcert, a file with the certificate of the authority. Add it to the " +
        "database URL, or use verify-full for a certificate of a public authority.",
    })
  }
  if (rootCertificate === "system" && mode !== "verify-full" && mode !== "disable") {
    return yield* new DatabaseTlsError({
      message: `sslrootcert=system needs sslmode=verify-full, not ${mode}, because anybody can get a ` +
        "certificate of a public authority.",
    })
  }
  if (mode !== "disable" && (certificate === undefined) !== (key === undefined)) {
    return yield* new DatabaseTlsError({
      message: "sslcert and sslkey belong together: the client's certificate and its private key. Set both, or none.",
    })
  }
  return { mode, rootCertificate, certificate, key }
})

type TlsSettings = Effect.Success<ReturnType<typeof readTlsSettings>>

const readCertificateFile = (parameter: string, file: string | undefined) =>
  file === undefined ? Effect.succeed(undefined) : Effect.tryPromise({
    try: () => readFile(file, "utf8"),
    catch: (cause) =>
      new DatabaseTlsError({
        message: `${parameter} of a database URL names ${file}, which cannot be read: ${
          cause instanceof Error && "code" in cause ? String(cause.code) : "unknown error"
        }. Correct the path or its permissions.`,
      }),
  })

/**
 * Parses a file of certificate authorities. Throws if the file contains no certificate or a damaged one, which Node
 * would silently ignore.
 */
const parseAuthorities = (pem: string) => {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  const authorities = blocks.map((block) => new X509Certificate(block))
  if (authorities.length === 0) throw new Error("sslrootcert contains no certificate")
}

/**
 * Fails if the certificate files cannot be used. Without this check, connections would fail later with a less helpful
 * message.
 */
const checkCertificates = (options: ConnectionOptions, files: ReadonlyArray<string | undefined>) =>
  Effect.try({
    try: () => {
      if (typeof options.ca === "string") parseAuthorities(options.ca)
      createSecureContext(options)
    },
    catch: (cause) =>
      new DatabaseTlsError({
        message: `The certificates for the database cannot be used (${
          files.filter((file) => file !== undefined).join(", ")
        }): ${cause instanceof Error ? cause.message : String(cause)}. They must be in PEM format, and the key must ` +
          "belong to the certificate and have no password.",
      }),
  })

/** Returns the certificate authorities that Node and this machine trust, for `sslrootcert=system`. */
const getSystemAuthorities = () => [...getCACertificates("default"), ...getCACertificates("system")]

/**
 * Converts the TLS settings to Node's options, and checks the files that they refer to. As in libpq, `verify-full`
 * verifies the server's certificate and its host name, `verify-ca` only the certificate, and weaker modes neither.
 */
const makeTlsOptions = Effect.fnUntraced(function* (settings: TlsSettings) {
  const { certificate, key, mode, rootCertificate } = settings
  const [ca, cert, privateKey] = yield* Effect.all([
    rootCertificate === "system"
      ? Effect.sync(getSystemAuthorities)
      : readCertificateFile("sslrootcert", rootCertificate),
    readCertificateFile("sslcert", certificate),
    readCertificateFile("sslkey", key),
  ])
  const files: ConnectionOptions = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(privateKey === undefined ? {} : { key: privateKey }),
  }
  yield* checkCertificates(files, [rootCertificate, certificate, key])
  if (mode === "verify-full") return files
  // As in libpq, `require` verifies the certificate but not the host name if a file of certificate authorities is set.
  return mode === "verify-ca" || (mode === "require" && ca !== undefined)
    ? { ...files, checkServerIdentity: () => undefined }
    : { ...files, rejectUnauthorized: false }
})

/**
 * PostgreSQL's SSLRequest message: its length, followed by a fixed code. A client sends it to ask whether the server
 * supports TLS.
 */
const tlsRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Opens a stream that is encrypted if the server supports TLS. The driver's own implementation only accepts verified
 * certificates.
 *
 * Sends PostgreSQL's TLS request on a new socket. The server answers with `S`, and the connection is then encrypted, or
 * with `N`, and it stays unencrypted. Whatever the driver writes to the returned stream in the meantime is buffered.
 */
const openWithOptionalTls = (open: () => Socket, options: ConnectionOptions): Duplex => {
  const raw = open()
  // The driver uses `stream`. What it writes can be read from `inner`, and the other way round.
  const [stream, inner] = duplexPair()
  /** Connects the stream with the socket, which is encrypted or not. */
  const begin = (negotiated: Socket) => {
    pipeline(inner, negotiated, inner, (error) => stream.destroy(error ?? undefined))
  }
  stream.once("close", () => raw.destroy())
  raw.on("error", (error) => stream.destroy(error))
  raw.on("close", () => stream.destroy())
  raw.once("connect", () => stream.emit("connect"))
  raw.write(tlsRequest)
  raw.once("data", (reply: Buffer) => {
    const text = reply.toString("latin1")
    if (text === "N") return begin(raw)
    if (text !== "S") return stream.destroy(new Error("The server did not say whether it supports TLS"))
    const encrypted = connect({ ...options, socket: raw })
    encrypted.on("error", (error) => stream.destroy(error))
    encrypted.once("secureConnect", () => begin(encrypted))
  })
  return stream
}

/** Creates the driver's TLS option for the server in `url`, and a registry of the sockets to that server. */
export const makeTlsSockets = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const settings = yield* readTlsSettings(url)
  const registry = yield* makeSocketRegistry(url)
  if (settings.mode === "disable") return { ssl: false, sockets: registry }
  const options = yield* makeTlsOptions(settings)
  if (settings.mode !== "prefer" && settings.mode !== "allow") return { ssl: options, sockets: registry }
  const sockets = {
    ...registry,
    open: () => openWithOptionalTls(registry.open, options),
    openForProbe: () => openWithOptionalTls(registry.openForProbe, options),
  }
  return { ssl: false, sockets }
})
