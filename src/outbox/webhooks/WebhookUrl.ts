/** Determines which URLs a webhook endpoint may have, and to which addresses its messages may be sent (SECURITY.md). */
import { isIP } from "node:net"
import { isInternalAddress } from "./InternalAddresses.ts"
import type { AllowedHosts } from "./WebhookSettings.ts"

const maxLength = 2048

/** Returns the host name or IP address in a URL, without the brackets around an IPv6 address. */
export const getHost = ({ hostname }: URL) => hostname.replace(/^\[(.*)\]$/, "$1")

const isHostAllowed = ({ addresses, names }: AllowedHosts, host: string) => names.has(host) || addresses.has(host)

/** Returns whether messages to the named host may be sent to this IP address, to which the host name resolves. */
export const isAddressPermitted = (allowed: AllowedHosts, host: string, address: string) =>
  allowed.names.has(host) || allowed.addresses.has(address) || !isInternalAddress(address)

/** A permitted webhook URL, or a description of what is wrong with it. */
export type CheckedUrl = { readonly url: URL } | { readonly problem: string }

/**
 * Parses a URL and checks whether a webhook endpoint may have it. A returned problem completes the sentence "The URL
 * …". The URL parser normalizes unusual spellings of an address, such as 2130706433, 0x7f.1 and 127.1. The check
 * therefore sees the same address that the connection will use.
 */
export const checkWebhookUrl = (text: string, allowed: AllowedHosts): CheckedUrl => {
  const url = URL.parse(text)
  if (url === null || url.href.length > maxLength) {
    return { problem: `must be a URL of at most ${maxLength} characters` }
  }
  const host = getHost(url)
  const isAllowed = isHostAllowed(allowed, host)
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isAllowed)) {
    return { problem: "must begin with https://, unless its host is in WEBHOOKS_ALLOWED_HOSTS" }
  }
  if (url.username !== "" || url.password !== "") {
    return { problem: "must not contain a user name or password. The signature proves the sender" }
  }
  if (url.hash !== "") return { problem: "must not contain a fragment, because requests do not contain it" }
  if (host === "" || host.endsWith(".")) return { problem: "must have a host without a dot at its end" }
  const port = url.port === "" ? 443 : Number(url.port)
  if (!isAllowed && port !== 443 && port < 1024) {
    return { problem: "must have the port 443 or one from 1024, unless its host is in WEBHOOKS_ALLOWED_HOSTS" }
  }
  if (isIP(host) !== 0 && !isAddressPermitted(allowed, host, host)) {
    return { problem: `must not have an internal address: ${host} is not in WEBHOOKS_ALLOWED_HOSTS` }
  }
  return { url }
}
