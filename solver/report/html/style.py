"""How the page looks: light, dark, small, printed."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --dim: #4b5563; --page: #fff; --card: #f3f4f6;
  --line: #d1d5db; --a: #2563a8; --b: #b45309; --c: #2f7d57; --d: #7c3aed; --e: #be123c;
  --f: #0e7490; --g: #6b7280; --h: #c026d3; --bad: #b91c1c }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --dim: #a9b1bd; --page: #111827;
  --card: #1f2937; --line: #4b5563; --a: #6aa9e9; --b: #f0a85c; --c: #6cc497; --d: #b79af5;
  --e: #f47c93; --f: #5cc4d8; --g: #9ca3af; --h: #f26bf5; --bad: #f87171 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 75rem; color: var(--ink);
  background: var(--page); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .8rem; padding-top: .8rem;
  border-top: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
figure { margin: 1rem 0 } figcaption { color: var(--dim); font-size: .9rem; margin-top: .5rem }
figure svg { width: 100%; height: auto; display: block } .slim { display: none }
.wide { overflow-x: auto } .wide img { display: block }
.tiles, .cards { display: grid; gap: .75rem }
.tiles { grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)) }
.tile { border-left: 4px solid var(--a); background: var(--card); padding: .5rem .8rem;
  border-radius: 4px; color: var(--dim); font-size: .9rem }
.tile b { display: block; color: var(--ink); font-size: 1.3rem; line-height: 1.3 }
.cards { grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)) }
.card { background: var(--card); border-radius: 8px; padding: .75rem 1rem }
.card h3 { margin: 0 0 .3rem } .card dl { grid-template-columns: 5.5rem 1fr; margin: 0 }
dl { display: grid; grid-template-columns: fit-content(16rem) minmax(0, 1fr);
  gap: .15rem .9rem; margin: .5rem 0 }
dt { color: var(--dim) } dd { margin: 0 }
table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .25rem .35rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th { text-align: left; color: var(--dim) } td.n, th.n { text-align: right }
td.l { white-space: normal; overflow-wrap: normal; min-width: 22rem }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: 6px; padding: 0 .8rem }
summary { padding: .5rem 0; cursor: pointer; font-weight: 600 }
pre { overflow-x: auto; background: var(--card); border-radius: 6px; padding: .75rem 1rem;
  font-size: .85rem; overflow-wrap: normal }
footer { margin-top: 2.5rem; color: var(--dim); font-size: .85rem }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink) } svg .strong { font-weight: 600 }
svg .dim { fill: var(--dim) } svg .axis { stroke: var(--dim); fill: none }
svg .grid { stroke: var(--line); stroke-width: .7; fill: none }
svg .bad { stroke: var(--bad); fill: none; stroke-width: 2 } svg .fbad { fill: var(--bad) }
svg .limit { stroke: var(--bad); stroke-dasharray: 5 4; stroke-width: 2 }
svg .edge { stroke: var(--ink); stroke-width: 2 } svg .fink { fill: var(--ink) }
svg .fa { fill: var(--a) } svg .fb { fill: var(--b) } svg .fc { fill: var(--c) }
svg .fd { fill: var(--d) } svg .fe { fill: var(--e) } svg .ff { fill: var(--f) }
svg .fg { fill: var(--g) } svg .fh { fill: var(--h) } svg .odd { fill-opacity: .55 }
svg .sa { stroke: var(--a) } svg .sb { stroke: var(--b) } svg .sc { stroke: var(--c) }
svg .sd { stroke: var(--d) } svg .se { stroke: var(--e) } svg .sf { stroke: var(--f) }
svg .sg { stroke: var(--g) } svg .sh { stroke: var(--h) } svg .curve { fill: none; stroke-width: 2 }
svg .ring { fill: none; stroke: var(--ink) }
@media (max-width: 40rem) { .roomy { display: none } .slim { display: block }
  h1 { font-size: 1.35rem } section > dl { grid-template-columns: minmax(0, 1fr) }
  section > dl > dt { margin-top: .4rem } .tiles { grid-template-columns: 1fr 1fr }
  td.l { min-width: 34rem } }
@media print { body { max-width: none; font-size: 11pt; padding: 0 }
  .roomy { display: block } .slim { display: none } .wide { overflow: visible }
  .wide img { max-width: 100% } table { font-size: 6.5pt } th, td { padding: .1rem .2rem }
  td.l { min-width: 0 } pre { white-space: pre-wrap; overflow-wrap: anywhere }
  ::details-content { content-visibility: visible; block-size: auto }
  .card, .tile, figure, tr { break-inside: avoid } h2, h3 { break-after: avoid } }
"""
