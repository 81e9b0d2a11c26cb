/**
 * Takes the demo key from the address of the link that the service prints on a terminal, such as
 * `#key=tl_live_…&symbol=OSTK`, and leaves `#OSTK` there. A classic script at the start of every page, so that the key
 * is gone from the address before anything else loads.
 */
{
  // The name that `api-key.js` uses.
  const storageKey = "tickerline-key"
  const keyLink = /^#key=(tl_live_[0-9A-Za-z]{38})(?:&symbol=([^&]*))?$/
  // Elsewhere, a link of somebody else must not make the visitor use the key of another account.
  const isOnThisMachine = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname)

  /** Returns whether a key was stored. Does not replace the visitor's own key. */
  const takeKey = () => {
    if (!location.hash.startsWith("#key=")) return false
    const [, key, symbol = ""] = keyLink.exec(location.hash) ?? []
    history.replaceState(history.state, "", location.pathname + location.search + (symbol === "" ? "" : `#${symbol}`))
    if (key === undefined || !isOnThisMachine) return false
    try {
      if (sessionStorage.getItem(storageKey) !== null) return false
      sessionStorage.setItem(storageKey, key)
      return true
    } catch {
      // Without storage, the visitor has to enter the key.
      return false
    }
  }

  takeKey()
  // The link was opened in a tab that shows this page.
  addEventListener("hashchange", () => {
    if (takeKey()) location.reload()
  })
}
