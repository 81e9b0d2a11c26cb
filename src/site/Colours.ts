/** Code with its words marked by class, for `style.css` to colour; done once, so no browser has to. */
import highlight from "highlight.js/lib/core"
import bash from "highlight.js/lib/languages/bash"
import json from "highlight.js/lib/languages/json"
import python from "highlight.js/lib/languages/python"
import typescript from "highlight.js/lib/languages/typescript"
import { escapeHtml } from "./Html.ts"

highlight.registerLanguage("sh", bash)
highlight.registerLanguage("json", json)
highlight.registerLanguage("python", python)
highlight.registerLanguage("ts", typescript)

/** HTML; what is in no language that is known stays plain. */
export const highlightCode = (language: string, text: string) =>
  highlight.getLanguage(language) === undefined ? escapeHtml(text) : highlight.highlight(text, { language }).value
