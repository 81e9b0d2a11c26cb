/** Text as it may stand in HTML, between tags and in quoted attributes. */

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

export const escape = (text: string) => text.replace(/[&<>"']/g, (found) => escapes[found] ?? found)
