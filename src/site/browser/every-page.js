/**
 * Runs on every page: copy buttons, scroll hints, the skip link, the theme switch and the scroll position of the
 * navigation.
 */
import { enhanceCodeAndTables } from "./dom.js"

const themeKey = "tickerline-theme"

const switches = Array.from(document.querySelectorAll("label.theme"))

/** @param {string | null | undefined} theme */
const applyTheme = (theme) => {
  const chosen = theme === "light" || theme === "dark" ? theme : "system"
  if (chosen === "system") delete document.documentElement.dataset["theme"]
  else document.documentElement.dataset["theme"] = chosen
  for (const label of switches) {
    const select = label.querySelector("select")
    if (select !== null) select.value = chosen
  }
}

for (const label of switches) {
  label.removeAttribute("hidden")
  label.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLSelectElement)) return
    applyTheme(target.value)
    try {
      if (target.value === "system") localStorage.removeItem(themeKey)
      else localStorage.setItem(themeKey, target.value)
    } catch {
      // If storage is disabled, the choice is kept only until the visitor leaves the page.
    }
  })
}
applyTheme(document.documentElement.dataset["theme"])

// Applies a theme that the visitor chose in another tab.
addEventListener("storage", ({ key, newValue }) => {
  if (key === themeKey) applyTheme(newValue)
})

enhanceCodeAndTables(document)

// Moves only the focus. Following the link would change the address, whose fragment the explorer reads as a symbol.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault()
  document.querySelector("main")?.focus()
})

// Scrolls a long sidebar to the link to the current page.
const aside = document.querySelector(".aside")
const current = aside?.querySelector("[aria-current]")
if (aside instanceof HTMLElement && current instanceof HTMLElement) {
  const offset = current.offsetTop - aside.offsetTop
  if (offset > aside.clientHeight - 2 * current.offsetHeight) aside.scrollTop = offset - aside.clientHeight / 2
}
