/** Converts between New York time and the API's timestamps, in the timestamps guide. */
import { requireElement } from "./dom.js"
import { formatNewYorkTime, formatTimestamp, parseNewYorkTime, parseTimestamp } from "./timestamps.js"

const clockField = requireElement("wall", HTMLInputElement)
const timestampField = requireElement("printed", HTMLInputElement)
const output = requireElement("explanation", HTMLOutputElement)

/** @param {number | undefined} instant @param {string} hint shown if the input is invalid */
const explain = (instant, hint) => {
  if (instant === undefined) {
    output.textContent = hint
    return
  }
  const [clock, timestamp] = [formatNewYorkTime(instant), formatTimestamp(instant)]
  const isStandardTime = timestamp.startsWith(clock.replace(" ", "T"))
  output.textContent = `${clock} in New York is printed as ${timestamp}: ${
    isStandardTime
      ? "New York has standard time, so both clocks agree."
      : "New York has daylight time, so the timestamp is one hour behind."
  }`
}

clockField.addEventListener("input", () => {
  const instant = parseNewYorkTime(clockField.value)
  if (instant !== undefined) timestampField.value = formatTimestamp(instant)
  explain(instant, "Enter a date and a time.")
})

timestampField.addEventListener("input", () => {
  const instant = parseTimestamp(timestampField.value)
  if (instant !== undefined) clockField.value = formatNewYorkTime(instant).replace(" ", "T")
  explain(instant, "Enter a timestamp such as 2026-07-15T08:30:00-05:00.")
})

requireElement("converter", HTMLElement).hidden = false
explain(parseNewYorkTime(clockField.value), "")
