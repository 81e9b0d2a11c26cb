/** D2: the shape of an API key, and what is kept of it. */
import { Effect, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { crc32 } from "node:zlib"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const prefix = "tl_live_"
const shape = /^tl_live_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/

/** Six characters hold the 32 bits of a CRC. */
const checksum = (random: string) => {
  let rest = crc32(random)
  let text = ""
  while (text.length < 6) {
    text = alphabet.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}

/** A new key: `tl_live_`, 32 random characters, a checksum. */
export const generateApiKey = Effect.gen(function* () {
  const secure = yield* SecureRandom.SecureRandom
  const letters = yield* Effect.replicateEffect(secure.intBetween(0, 61), 32)
  const random = letters.map((index) => alphabet.charAt(index)).join("")
  return Redacted.make(prefix + random + checksum(random))
})

/** Whether it can be a key at all: a mistyped one is known without a look into the database. */
export const isWellFormedApiKey = (key: Redacted.Redacted) => {
  const parts = shape.exec(Redacted.value(key))
  return parts?.[1] !== undefined && checksum(parts[1]) === parts[2]
}

/** All that is stored of a key but its hint: the SHA-256, hexadecimal. */
export const makeApiKeyHasher = Effect.map(
  Digest.Digest,
  (digest) => (key: Redacted.Redacted) =>
    digest.digestHex(Digest.sha256, new TextEncoder().encode(Redacted.value(key))),
)

/** What a person recognises a key by. */
export const getApiKeyHint = (key: Redacted.Redacted) => Redacted.value(key).slice(0, 12)
