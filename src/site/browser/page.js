/** Runs on every page: buttons that copy code, hints on what scrolls sideways, and the theme switch. */
import "./copy.js"
import { watch } from "./scrolling.js"

const stored = "tickerline-theme"

const switches = Array.from(document.querySelectorAll("label.theme"))

/** @param {string | null | undefined} theme */
const apply = (theme) => {
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
    apply(target.value)
    try {
      if (target.value === "system") localStorage.removeItem(stored)
      else localStorage.setItem(stored, target.value)
    } catch {
      // The choice lasts as long as the page.
    }
  })
}
apply(document.documentElement.dataset["theme"])

// Another tab chose a theme.
addEventListener("storage", ({ key, newValue }) => {
  if (key === stored) apply(newValue)
})

watch(document)

// The navigation may be longer than the window: it begins at the page that is read.
const aside = document.querySelector(".aside")
const current = aside?.querySelector("[aria-current]")
if (aside instanceof HTMLElement && current instanceof HTMLElement) {
  const place = current.offsetTop - aside.offsetTop
  if (place > aside.clientHeight - 2 * current.offsetHeight) aside.scrollTop = place - aside.clientHeight / 2
}
