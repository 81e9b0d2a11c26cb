/** Creates a private certificate authority (CA), and certificates signed by it, using openssl. */
import { Effect, FileSystem } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:https"
import { getCandidateProgramPaths, isExecutable } from "./Processes.ts"

/** Whether openssl is installed. */
export const hasOpenssl = getCandidateProgramPaths("openssl").some(isExecutable)

const openssl = (...args: ReadonlyArray<string>) => execFileSync("openssl", args, { stdio: "pipe" })

const newKeyOptions = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

/** Creates `NAME.pem` and `NAME.key` for a new CA in the folder. */
export const makeAuthority = (folder: string, name: string) => {
  const [certificate, key] = [`${folder}/${name}.pem`, `${folder}/${name}.key`]
  openssl("req", "-x509", ...newKeyOptions, "-keyout", key, "-out", certificate, "-days", "2", "-subj", `/CN=${name}`)
  return { certificate, key }
}

/** Creates `NAME.pem` and `NAME.key` for a host or user, signed by the CA. */
export const signCertificate = (
  folder: string,
  name: string,
  authority: ReturnType<typeof makeAuthority>,
  subjectAlternativeName: string,
) => {
  const [certificate, key, request] = [`${folder}/${name}.pem`, `${folder}/${name}.key`, `${folder}/${name}.csr`]
  openssl("req", ...newKeyOptions, "-keyout", key, "-out", request, "-subj", `/CN=${name}`)
  const extensions = `${folder}/${name}.ext`
  writeFileSync(extensions, `subjectAltName=${subjectAlternativeName}\n`)
  const signer = ["-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial"]
  openssl("x509", "-req", "-in", request, ...signer, "-extfile", extensions, "-days", "2", "-out", certificate)
  return { certificate, key }
}

/** Starts an HTTPS server with a self-signed certificate. Returns its URL. */
export const startSelfSignedServer = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-certificate-" })
  const { certificate, key } = makeAuthority(folder, "localhost")
  const server = createServer(
    { cert: readFileSync(certificate), key: readFileSync(key) },
    (_, response) => response.end("{}"),
  )
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.close()),
  )
  const address = server.address()
  return `https://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
})
