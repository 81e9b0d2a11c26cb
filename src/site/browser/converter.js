/** The converter on the page about timestamps. */
import { fromNewYork, fromPrinted, toNewYork, toPrinted } from "./time.js"

/** @param {string} id */
const field = (id) => {
  const found = document.getElementById(id)
  if (!(found instanceof HTMLInputElement)) throw new Error(`The page has no field ${id}.`)
  return found
}

const wall = field("wall")
const text = field("printed")
const said = document.getElementById("said")

/** @param {number | undefined} moment @param {string} wrong */
const tell = (moment, wrong) => {
  if (said === null) return
  if (moment === undefined) {
    said.textContent = wrong
    return
  }
  const [shown, printed] = [toNewYork(moment), toPrinted(moment)]
  const same = printed.startsWith(shown.replace(" ", "T"))
  said.textContent = `${shown} in New York prints as ${printed}: ${
    same ? "standard time, so the digits are the same." : "daylight time, so the digits are one hour earlier."
  }`
}

wall.addEventListener("input", () => {
  const moment = fromNewYork(wall.value)
  if (moment !== undefined) text.value = toPrinted(moment)
  tell(moment, "Enter a day and a time, from 1970 on.")
})

text.addEventListener("input", () => {
  const moment = fromPrinted(text.value)
  if (moment !== undefined) wall.value = toNewYork(moment).replace(" ", "T")
  tell(moment, "A printed time looks like 2026-07-15T08:30:00-05:00.")
})

document.getElementById("converter")?.removeAttribute("hidden")
tell(fromNewYork(wall.value), "")
