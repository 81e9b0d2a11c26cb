/** Text as HTML, and HTML as text. */

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** Text as it may stand between tags and in quoted attributes. */
export const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (found) => escapes[found] ?? found)

export const stripTags = (html: string) => html.replace(/<[^>]+>/g, "")
