/** Every block of code gets a button that copies it; without a clipboard there is none. */

/** @param {HTMLElement} block */
const addButton = (block) => {
  const button = document.createElement("button")
  button.type = "button"
  button.className = "copy"
  button.textContent = "Copy"
  const code = block.querySelector("code")
  const label = block.dataset["language"]
  button.setAttribute("aria-label", `Copy the code${label === undefined ? "" : ` (${label})`}`)
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code?.textContent ?? "")
      button.textContent = "Copied"
    } catch {
      button.textContent = "Not allowed"
    }
    setTimeout(() => {
      button.textContent = "Copy"
    }, 2000)
  })
  block.append(button)
}

if (navigator.clipboard !== undefined) {
  for (const block of document.querySelectorAll(".code")) if (block instanceof HTMLElement) addButton(block)
}
