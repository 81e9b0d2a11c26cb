/**
 * The oldest Node version on which the service runs: the requirement of Effect's platform package, and of `engines` in
 * `package.json`. This file is JavaScript because `preflight.js` must run on Node versions that cannot run TypeScript.
 */
export const oldestNodeVersion = "22.19"

/** Which Node versions the service supports, in words. The first releases of Node 23 cannot decompress Zstandard. */
export const supportedNodeVersions = `${oldestNodeVersion} or newer, but not 23`

const [oldestMajor = 0, oldestMinor = 0] = oldestNodeVersion.split(".").map(Number)

/**
 * Returns whether the service supports a Node version, such as `22.19.0`.
 *
 * @param {string} version
 */
export const isSupportedNode = (version) => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major !== 23 && (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor))
}
