/** Applies the chosen theme before the first paint. A classic script, which blocks rendering until it has run. */
{
  const root = document.documentElement
  root.dataset["scripts"] = "on"
  try {
    const chosen = localStorage.getItem("tickerline-theme")
    if (chosen === "light" || chosen === "dark") root.dataset["theme"] = chosen
  } catch {
    // Without storage, the system's theme applies.
  }
}
