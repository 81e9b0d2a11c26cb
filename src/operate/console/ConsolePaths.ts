/** Paths and URLs of the console. */

/** The path of the first page. */
export const homePath = "/console/"
/** The path of the sign-in page. */
export const signInPath = `${homePath}sign-in`
/** The path of the page on which invitations are accepted. */
export const invitationPath = `${signInPath}/invitation`

/** Returns a path within the console, so that a link to the sign-in page cannot lead to another site afterwards. */
export const toConsolePath = (to: string | null) => {
  if (to === null || !URL.canParse(to, "http://console")) return homePath
  const { origin, pathname, search } = new URL(to, "http://console")
  return origin === "http://console" && pathname.startsWith(homePath) && !pathname.startsWith(signInPath)
    ? pathname + search
    : homePath
}

/** Returns the URL of the sign-in page, which afterwards leads to the page at the path. */
export const makeSignInPath = (to: string) => `${signInPath}?${new URLSearchParams({ to }).toString()}`

/** Returns the URL of an invitation, to open in a browser. */
export const makeInvitationUrl = (origin: string, invitation: string) =>
  `${origin}${invitationPath}?${new URLSearchParams({ invitation }).toString()}`
