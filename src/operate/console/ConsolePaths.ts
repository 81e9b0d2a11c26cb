/** Paths and URLs of the console. */

export const homePath = "/console/"
export const signInPath = `${homePath}sign-in`
export const invitationPath = `${signInPath}/invitation`

/** Returns the path of a page of the console, so that a link to the sign-in cannot lead to another site. */
export const toConsolePath = (to: string | null) => {
  if (to === null || !URL.canParse(to, "http://console")) return homePath
  const { origin, pathname, search } = new URL(to, "http://console")
  return origin === "http://console" && pathname.startsWith(homePath) && !pathname.startsWith(signInPath)
    ? pathname + search
    : homePath
}

/** Makes the URL of the sign-in page, which leads to the page at the path afterwards. */
export const makeSignInPath = (to: string) => `${signInPath}?${new URLSearchParams({ to }).toString()}`

/** Makes the URL of an invitation, to open in a browser. */
export const makeInvitationUrl = (origin: string, invitation: string) =>
  `${origin}${invitationPath}?${new URLSearchParams({ invitation }).toString()}`
