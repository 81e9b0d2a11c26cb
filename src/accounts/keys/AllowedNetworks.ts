/** Checks the networks from which a key may be used (D2, API keys). */
import { LRUCache } from "lru-cache"
import { AddressSet } from "../AddressSet.ts"
import { toCanonicalAddress } from "../../contract/rules/IpNetworks.ts"
import type { AllowedNetworks, CurrentAccount } from "../../contract/Authentication.ts"

/** Maximum number of networks in all compiled lists together. A network takes about 500 bytes. */
const maxCompiledNetworks = 20_000

const compileNetworks = (networks: ReadonlyArray<string>): AllowedNetworks => {
  const addresses = new AddressSet(networks)
  return { size: networks.length, includes: (address) => addresses.has(address) }
}

/**
 * Returns a function that compiles a list of networks such as `10.0.0.0/8`. It remembers the result, because the same
 * keys are looked up again and again.
 */
export const makeNetworkCompiler = () => {
  const compiled = new LRUCache<string, AllowedNetworks>({
    maxSize: maxCompiledNetworks,
    sizeCalculation: ({ size }) => size,
  })
  return (networks: ReadonlyArray<string>) => {
    const text = networks.join()
    const found = compiled.get(text) ?? compileNetworks(networks)
    compiled.set(text, found)
    return found
  }
}

/**
 * Whether the key may be used from the client's address. If the key is limited to networks, an unknown address is
 * refused.
 */
export const canKeyUseAddress = ({ networks }: typeof CurrentAccount.Service, address: string | undefined) => {
  if (networks === null) return true
  const canonical = address === undefined ? undefined : toCanonicalAddress(address)
  return canonical !== undefined && networks.includes(canonical)
}
