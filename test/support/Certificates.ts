/** Makes a private certificate authority, and certificates that it signs, with openssl. */
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"

const openssl = (...args: ReadonlyArray<string>) => execFileSync("openssl", args, { stdio: "pipe" })

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

/** Makes `NAME.pem` and `NAME.key` of a new authority in the folder. */
export const makeAuthority = (folder: string, name: string) => {
  const [certificate, key] = [`${folder}/${name}.pem`, `${folder}/${name}.key`]
  openssl("req", "-x509", ...newKey, "-keyout", key, "-out", certificate, "-days", "2", "-subj", `/CN=${name}`)
  return { certificate, key }
}

/** Makes `NAME.pem` and `NAME.key`, signed by the authority, for a host or a user. */
export const signCertificate = (
  folder: string,
  name: string,
  authority: ReturnType<typeof makeAuthority>,
  subjectAlternativeName: string,
) => {
  const [certificate, key, request] = [`${folder}/${name}.pem`, `${folder}/${name}.key`, `${folder}/${name}.csr`]
  openssl("req", ...newKey, "-keyout", key, "-out", request, "-subj", `/CN=${name}`)
  const extensions = `${folder}/${name}.ext`
  writeFileSync(extensions, `subjectAltName=${subjectAlternativeName}\n`)
  const signer = ["-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial"]
  openssl("x509", "-req", "-in", request, ...signer, "-extfile", extensions, "-days", "2", "-out", certificate)
  return { certificate, key }
}
