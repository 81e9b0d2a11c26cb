/** Marks what is wider than its box, so that the style shows that it scrolls; only then the Tab key stops there. */

/** @param {HTMLElement} box */
const mark = (box) => {
  const { clientWidth, scrollLeft, scrollWidth } = box
  const hidden = scrollWidth - clientWidth
  if (hidden <= 1) {
    delete box.dataset["more"]
    // A box that is cut in height scrolls as well.
    if (box.scrollHeight <= box.clientHeight + 1) box.removeAttribute("tabindex")
    return
  }
  box.tabIndex = 0
  box.dataset["more"] = scrollLeft <= 1 ? "right" : scrollLeft >= hidden - 1 ? "left" : "both"
}

/** @param {HTMLElement} box */
const observe = (box) => {
  const observer = new ResizeObserver(() => mark(box))
  observer.observe(box)
  if (box.firstElementChild !== null) observer.observe(box.firstElementChild)
  box.addEventListener("scroll", () => mark(box), { passive: true })
  mark(box)
}

/**
 * Watches every table and block of code below an element.
 * @param {ParentNode} root
 */
export const watch = (root) => {
  for (const box of root.querySelectorAll(".scroll, pre")) if (box instanceof HTMLElement) observe(box)
}
