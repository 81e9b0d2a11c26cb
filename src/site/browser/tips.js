/** Tooltips over plots, in the page's own type: they appear at once, on a touch as well, and stay inside the figure. */
import { make } from "./dom.js"

/** @param {HTMLElement} figure */
const addTo = (figure) => {
  const tip = make("div", { class: "tip", "aria-hidden": "true" })
  tip.hidden = true
  figure.append(tip)
  for (const group of figure.querySelectorAll("svg.plot g")) {
    const title = group.querySelector("title")
    if (title === null) continue
    const text = title.textContent
    // The browser would show its own, later and smaller.
    title.remove()
    const show = () => {
      tip.textContent = text
      tip.hidden = false
      const [frame, mark] = [
        figure.getBoundingClientRect(),
        (group.querySelector(".amount") ?? group).getBoundingClientRect(),
      ]
      const left = mark.left + mark.width / 2 - frame.left - tip.offsetWidth / 2
      const above = mark.top - frame.top - tip.offsetHeight - 8
      tip.style.left = `${Math.max(0, Math.min(left, frame.width - tip.offsetWidth))}px`
      tip.style.top = `${above < 0 ? mark.bottom - frame.top + 8 : above}px`
    }
    group.addEventListener("pointerenter", show)
    group.addEventListener("click", show)
    group.addEventListener("pointerleave", () => {
      tip.hidden = true
    })
  }
}

/**
 * Gives every plot below an element its tooltips.
 * @param {HTMLElement} root
 */
export const addTips = (root) => {
  for (const figure of root.querySelectorAll("figure.plotted")) if (figure instanceof HTMLElement) addTo(figure)
}
