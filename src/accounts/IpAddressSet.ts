/** Sets of IP addresses and networks, compiled once for quick lookups. */
import { Result } from "effect"
import { NetAddress } from "effect/net"
import { BlockList, isIP } from "node:net"
import { parseNetwork } from "../contract/rules/IpNetworks.ts"

/**
 * A set of IP addresses and networks. IPv4 and IPv6 entries are stored in separate lists. In a shared list, Node.js
 * would match an IPv4 address against IPv6 networks as an IPv4-mapped address, so `::/3` would match every IPv4
 * address.
 */
export class IpAddressSet {
  readonly #families = { 4: new BlockList(), 6: new BlockList() }

  constructor(networks: ReadonlyArray<string> = []) {
    for (const network of networks) {
      if (!this.add(network)) throw new Error(`${network} is not a network`)
    }
  }

  /**
   * Adds an address such as `10.0.0.1`, or a network such as `10.0.0.0/8`. Returns false if the text is neither, or if
   * bits after the prefix are set, as in `10.0.0.1/8`.
   */
  add(text: string) {
    const parsed = parseNetwork(text)
    if (Result.isFailure(parsed)) return false
    const { address, prefixLength } = parsed.success
    const isIpv4 = NetAddress.width(address) === 32
    this.#families[isIpv4 ? 4 : 6].addSubnet(NetAddress.formatIp(address), prefixLength, isIpv4 ? "ipv4" : "ipv6")
    return true
  }

  /** Returns whether an IP address is one of the entries or belongs to a network among them. */
  has(address: string) {
    const family = isIP(address)
    return (family === 4 || family === 6) && this.#families[family].check(address, family === 4 ? "ipv4" : "ipv6")
  }
}
