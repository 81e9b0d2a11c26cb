/** The fields of the page about timestamps; `browser/converter.js` makes them work. */

export const timestampConverter = `<div id="converter" class="converter" hidden>
<p class="field"><label for="wall">New York's clock</label>
<input id="wall" type="datetime-local" step="1" value="2026-07-15T09:30:00"></p>
<p class="field"><label for="printed">Printed</label>
<input id="printed" type="text" size="28" spellcheck="false" autocomplete="off" value="2026-07-15T08:30:00-05:00"></p>
<output id="said" for="wall printed"></output>
</div>
<noscript><p>With JavaScript there is a converter here.</p></noscript>
`
