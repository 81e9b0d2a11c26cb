/** Applies the chosen theme before anything is drawn: a classic script, so the page waits for it. */
{
  const root = document.documentElement
  root.dataset["scripts"] = "on"
  try {
    const chosen = localStorage.getItem("tickerline-theme")
    if (chosen === "light" || chosen === "dark") root.dataset["theme"] = chosen
  } catch {
    // The browser keeps nothing for pages: the system's theme counts.
  }
}
