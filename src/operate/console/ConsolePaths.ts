/** Paths and URLs of the console. */

/** The path of the console's home page. */
export const homePath = "/console/"
/** The path of the sign-in page. */
export const signInPath = `${homePath}sign-in`
/** The path of the page on which an invitation is accepted. */
export const invitationPath = `${signInPath}/invitation`

/**
 * Returns `to` if it is a path within the console, otherwise the path of the home page. This prevents a link to the
 * sign-in page from redirecting to another site after sign-in.
 */
export const toConsolePath = (to: string | null) => {
  if (to === null || !URL.canParse(to, "http://console")) return homePath
  const { origin, pathname, search } = new URL(to, "http://console")
  return origin === "http://console" && pathname.startsWith(homePath) && !pathname.startsWith(signInPath)
    ? pathname + search
    : homePath
}

/** Returns the URL of the sign-in page. After sign-in, the page redirects to `to`. */
export const makeSignInPath = (to: string) => `${signInPath}?${new URLSearchParams({ to }).toString()}`

/** Returns the URL at which an invitation is accepted in a browser. */
export const makeInvitationUrl = (origin: string, invitation: string) =>
  `${origin}${invitationPath}?${new URLSearchParams({ invitation }).toString()}`
