/**
 * Defines the format of API keys, their digest, and their hint, which is the beginning of a key that is shown to its
 * owner (D2, API keys).
 */
import { Effect, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { crc32 } from "node:zlib"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** Returns the checksum of a secret's random characters: their CRC-32 in base 62, padded to six characters. */
const computeChecksum = (random: string) => {
  let remainder = crc32(random)
  let text = ""
  while (text.length < 6) {
    text = alphabet.charAt(remainder % 62) + text
    remainder = Math.floor(remainder / 62)
  }
  return text
}

/**
 * Returns functions that generate and check secrets. A secret consists of a prefix, 32 random characters and a
 * checksum.
 */
export const makeSecretFormat = (prefix: string) => {
  const format = new RegExp(`^${prefix}([0-9A-Za-z]{32})([0-9A-Za-z]{6})$`)
  return {
    generate: Effect.gen(function* () {
      const secure = yield* SecureRandom.SecureRandom
      const indexes = yield* Effect.replicateEffect(secure.intBetween(0, 61), 32)
      const random = indexes.map((index) => alphabet.charAt(index)).join("")
      return Redacted.make(prefix + random + computeChecksum(random))
    }),
    /**
     * Returns whether the secret's format and checksum are correct. A malformed secret can be refused without a
     * database query.
     */
    isWellFormed: (secret: Redacted.Redacted) => {
      const parts = format.exec(Redacted.value(secret))
      return parts?.[1] !== undefined && computeChecksum(parts[1]) === parts[2]
    },
  }
}

/** Functions that generate and check API keys. */
export const { generate: generateApiKey, isWellFormed: isWellFormedApiKey } = makeSecretFormat("tl_live_")

/** Builds a function that computes a key's SHA-256 in hexadecimal. Only this digest and the hint are stored. */
export const makeApiKeyHasher = Effect.map(
  Digest.Digest,
  (digest) => (key: Redacted.Redacted) =>
    digest.digestHex(Digest.sha256, new TextEncoder().encode(Redacted.value(key))),
)

/** Returns the first 12 characters of a key, so that its owner can recognize it. */
export const getApiKeyHint = (key: Redacted.Redacted) => Redacted.value(key).slice(0, 12)
