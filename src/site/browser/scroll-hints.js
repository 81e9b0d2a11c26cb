/** Marks boxes with overflowing content: the style sheet shows a hint, and the Tab key can focus them. */

/** @param {HTMLElement} box */
const mark = (box) => {
  const { clientWidth, scrollLeft, scrollWidth } = box
  const overflow = scrollWidth - clientWidth
  // A box with limited height may scroll only vertically.
  if (overflow > 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0
  else box.removeAttribute("tabindex")
  if (overflow <= 1) {
    delete box.dataset["more"]
    return
  }
  box.dataset["more"] = scrollLeft <= 1 ? "right" : scrollLeft >= overflow - 1 ? "left" : "both"
}

/**
 * Watches the size of every table and code block inside a root.
 * @param {ParentNode} root
 */
export const watchOverflow = (root) => {
  for (const box of root.querySelectorAll(".scroll, pre")) {
    if (!(box instanceof HTMLElement)) continue
    const observer = new ResizeObserver(() => mark(box))
    observer.observe(box)
    if (box.firstElementChild !== null) observer.observe(box.firstElementChild)
    box.addEventListener("scroll", () => mark(box), { passive: true })
    mark(box)
  }
}
