/** Creates webhook secrets and signatures according to the Standard Webhooks specification. */
import { createHmac, randomBytes } from "node:crypto"

const prefix = "whsec_"

/** Generates a secret. */
export const generateWebhookSecret = () => `${prefix}${randomBytes(32).toString("base64")}`

/** The signed parts of a message. */
export interface SignedMessage {
  readonly id: string
  /** Unix time of the attempt, in seconds. */
  readonly timestamp: number
  readonly body: string
}

/** Returns the value of the `webhook-signature` header, which contains one signature per secret. */
export const signWebhook = ({ body, id, timestamp }: SignedMessage, secrets: ReadonlyArray<string>) =>
  secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  }).join(" ")
