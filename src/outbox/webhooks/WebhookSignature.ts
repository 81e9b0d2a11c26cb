/** Secrets and signatures, as in the Standard Webhooks specification. */
import { createHmac, randomBytes } from "node:crypto"

const prefix = "whsec_"

/** Creates a secret. */
export const generateWebhookSecret = () => `${prefix}${randomBytes(32).toString("base64")}`

/** The parts of a message that are signed. */
export interface SignedMessage {
  readonly id: string
  /** Unix time of the attempt, s. */
  readonly timestamp: number
  readonly body: string
}

/** Returns the value of the header `webhook-signature`: one signature per secret. */
export const signWebhook = ({ body, id, timestamp }: SignedMessage, secrets: ReadonlyArray<string>) =>
  secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  }).join(" ")
