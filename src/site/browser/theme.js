/** Applies the chosen theme before the first paint. This is a classic script, so rendering waits for it. */
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
