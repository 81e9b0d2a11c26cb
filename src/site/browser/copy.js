/** Buttons that copy a block of code, if the browser has a clipboard for pages. */

/** @param {HTMLElement} block */
export const addCopyButton = (block) => {
  if (navigator.clipboard === undefined) return
  const button = document.createElement("button")
  button.type = "button"
  button.className = "copy"
  const code = block.querySelector("code")
  const language = block.dataset["language"]
  const name = `Copy the code${language === undefined ? "" : ` (${language})`}`
  /** @param {string} text @param {string} spoken */
  const say = (text, spoken) => {
    button.textContent = text
    button.setAttribute("aria-label", spoken)
  }
  say("Copy", name)
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code?.textContent ?? "")
      say("Copied", "Copied")
    } catch {
      say("Not allowed", "Not allowed")
    }
    setTimeout(() => say("Copy", name), 2000)
  })
  block.append(button)
}

for (const block of document.querySelectorAll(".code")) if (block instanceof HTMLElement) addCopyButton(block)
