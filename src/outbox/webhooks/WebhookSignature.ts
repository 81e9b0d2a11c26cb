/** Secrets and signatures of the Standard Webhooks specification. */
import { createHmac, randomBytes } from "node:crypto"

const prefix = "whsec_"

export const generateWebhookSecret = () => `${prefix}${randomBytes(32).toString("base64")}`

/** The parts of a message that are signed. */
export interface SignedMessage {
  readonly id: string
  /** Unix time of the attempt, s. */
  readonly timestamp: number
  readonly body: string
}

/** Returns the header `webhook-signature`: a signature per secret. */
export const signWebhook = ({ body, id, timestamp }: SignedMessage, secrets: ReadonlyArray<string>) =>
  secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  }).join(" ")
