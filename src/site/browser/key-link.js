/**
 * Takes the demo key from the address of a link that the service prints on a terminal, such as
 * `#key=tl_live_…&symbol=OSTK`, and leaves `#OSTK`. This is a classic script at the start of every page, so that the
 * key is gone from the address before anything else loads.
 */
{
  // The same name as in `api-key.js`.
  const storageKey = "tickerline-key"
  const keyLink = /^#key=(tl_live_[0-9A-Za-z]{38})(?:&symbol=([^&]*))?$/
  // On other hosts, somebody could send the visitor a link with the key of another account.
  const isOnThisMachine = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname)

  /** Stores the key in the address, unless the visitor has already set a key. Returns whether it was stored. */
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
  // Runs if the link is opened in a tab that already shows this page.
  addEventListener("hashchange", () => {
    if (takeKey()) location.reload()
  })
}
