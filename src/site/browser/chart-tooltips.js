/**
 * Adds tooltips to charts. Unlike native tooltips, they appear immediately, work on touch screens, and stay inside the
 * figure.
 */
import { createElement } from "./dom.js"

/** @param {HTMLElement} figure */
const addTooltipTo = (figure) => {
  const tooltip = createElement("div", { class: "tip", "aria-hidden": "true" })
  tooltip.hidden = true
  figure.append(tooltip)
  for (const group of figure.querySelectorAll("svg.plot g")) {
    const title = group.querySelector("title")
    if (title === null) continue
    const text = title.textContent
    // Removes the title, because the browser would show it as a second tooltip.
    title.remove()
    const show = () => {
      tooltip.textContent = text
      tooltip.hidden = false
      const frame = figure.getBoundingClientRect()
      const mark = (group.querySelector(".amount") ?? group).getBoundingClientRect()
      const left = mark.left + mark.width / 2 - frame.left - tooltip.offsetWidth / 2
      const above = mark.top - frame.top - tooltip.offsetHeight - 8
      tooltip.style.left = `${Math.max(0, Math.min(left, frame.width - tooltip.offsetWidth))}px`
      tooltip.style.top = `${above < 0 ? mark.bottom - frame.top + 8 : above}px`
    }
    group.addEventListener("pointerenter", show)
    group.addEventListener("click", show)
    group.addEventListener("pointerleave", () => {
      tooltip.hidden = true
    })
  }
}

/**
 * Adds a tooltip to every chart inside a root.
 * @param {HTMLElement} root
 */
export const addChartTooltips = (root) => {
  for (const figure of root.querySelectorAll("figure.plotted")) if (figure instanceof HTMLElement) addTooltipTo(figure)
}
