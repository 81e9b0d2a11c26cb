/** Checks whether a key may be used from a client's address (D2, API keys). */
import { LRUCache } from "lru-cache"
import { IpAddressSet } from "../IpAddressSet.ts"
import { toCanonicalAddress } from "../../contract/rules/IpNetworks.ts"
import type { AllowedNetworks, CurrentAccount } from "../../contract/Authentication.ts"

/** Maximum number of networks in all cached lists combined. Each network takes about 500 bytes of memory. */
const maxCompiledNetworks = 20_000

const compileNetworks = (networks: ReadonlyArray<string>): AllowedNetworks => {
  const addresses = new IpAddressSet(networks)
  return { size: networks.length, includes: (address) => addresses.has(address) }
}

/**
 * Creates a function that compiles a key's list of allowed networks, such as `10.0.0.0/8`, for quick lookups. Results
 * are cached, because the same keys are looked up repeatedly.
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
 * Returns whether the key may be used from the client's address. An unknown address is refused if the key is restricted
 * to certain networks.
 */
export const canKeyUseAddress = ({ networks }: typeof CurrentAccount.Service, address: string | undefined) => {
  if (networks === null) return true
  const canonical = address === undefined ? undefined : toCanonicalAddress(address)
  return canonical !== undefined && networks.includes(canonical)
}
