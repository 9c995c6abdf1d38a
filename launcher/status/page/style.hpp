// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

namespace batchai::status {

// The style sheet of the page. Its colours can be told apart by people who do not see all colours.
inline constexpr std::string_view page_style = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --card: #f5f7f9; --text: #1c2730; --faint: #5a6873; --rule: #d5dce2;
  --good: #00734f; --bad: #b3320c; --advice: #fff6df; --advice-rule: #c98a00;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b4579a; --c4: #b98500; --c5: #2f9fd6;
  --c6: #6b5bb5; --c7: #7a6a55; --mute: #9aa7b1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12181d; --card: #1c252c; --text: #e3e9ed; --faint: #9fadb8; --rule: #35424c;
    --good: #4cc79b; --bad: #ff8d66; --advice: #2d2612; --advice-rule: #e2ab2f;
    --c0: #56a8e0; --c1: #f08a4b; --c2: #35c79a; --c3: #dd8fc6; --c4: #e6b73c; --c5: #86cdf2;
    --c6: #a79bea; --c7: #c0ad92; --mute: #5f6d78;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em;
  overflow-wrap: anywhere; }
.head { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; }
.state { padding: .1rem .7rem; border-radius: 1rem; border: 1px solid var(--faint);
  color: var(--faint); font-weight: 600; }
.state.succeeded { border-color: var(--good); color: var(--good); }
.state.failed { border-color: var(--bad); color: var(--bad); }
.lead { color: var(--faint); margin: .4rem 0 0; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr));
  gap: .7rem 1.2rem; margin: 1rem 0; }
dl.facts div { min-width: 0; }
dl.facts .wide { grid-column: 1 / -1; }
dt { color: var(--faint); font-size: .85rem; }
dd { margin: 0; overflow-wrap: anywhere; }
ul.advice { list-style: none; margin: 0; padding: 0; }
ul.advice li, .failure, .note { padding: .6rem .9rem; margin: .5rem 0; border-radius: .4rem;
  border-left: .3rem solid var(--advice-rule); background: var(--advice);
  overflow-wrap: anywhere; }
.failure { border-left-color: var(--bad); background: var(--card); }
.note { border-left-color: var(--mute); background: var(--card); }
.failure code { display: block; margin-top: .3rem; white-space: pre-wrap; }
.gantt { display: grid; grid-template-columns: fit-content(30%) minmax(0, 1fr);
  column-gap: .6rem; align-items: center; }
.gantt .node { overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  font-size: .85rem; line-height: 20px; }
.gantt svg { display: block; width: 100%; height: 20px; overflow: visible; }
.gantt .track { fill: var(--card); }
.chart { margin: .3rem 0 1rem; }
.chart .scale { display: flex; justify-content: space-between; color: var(--faint);
  font-size: .85rem; }
svg.plot { display: block; width: 100%; height: 8rem; background: var(--card); overflow: visible; }
svg.plot .grid { stroke: var(--rule); stroke-width: 1; vector-effect: non-scaling-stroke; }
svg.plot .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round;
  vector-effect: non-scaling-stroke; }
svg.plot .mute { stroke-opacity: .55; stroke-width: 1; }
svg.axis, .gantt svg.axis { display: block; width: 100%; height: 24px; overflow: visible; }
svg.axis line { stroke: var(--faint); }
svg.axis text { fill: var(--faint); font-size: 12px; }
svg.parts { display: block; width: 100%; height: 28px; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .85rem;
  color: var(--faint); margin: .4rem 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem;
  margin-right: .35rem; vertical-align: -.08rem; }
.c0 { fill: var(--c0); stroke: var(--c0); background: var(--c0); }
.c1 { fill: var(--c1); stroke: var(--c1); background: var(--c1); }
.c2 { fill: var(--c2); stroke: var(--c2); background: var(--c2); }
.c3 { fill: var(--c3); stroke: var(--c3); background: var(--c3); }
.c4 { fill: var(--c4); stroke: var(--c4); background: var(--c4); }
.c5 { fill: var(--c5); stroke: var(--c5); background: var(--c5); }
.c6 { fill: var(--c6); stroke: var(--c6); background: var(--c6); }
.c7 { fill: var(--c7); stroke: var(--c7); background: var(--c7); }
.mute { fill: var(--mute); stroke: var(--mute); background: var(--mute); }
.bad { fill: var(--bad); stroke: var(--bad); background: var(--bad); }
.gantt rect, svg.parts rect { stroke: none; }
.gantt rect.begins { fill-opacity: .45; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
th { color: var(--faint); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.text { min-width: 14rem; overflow-wrap: anywhere; }
tr.slow td { color: var(--bad); font-weight: 600; }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .85rem; }
@media (max-width: 40rem) {
  h1 { font-size: 1.3rem; }
  dl.facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  table.events td, table.events th { display: block; border: 0; padding: 0; }
  table.events thead { display: none; }
  table.events tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--rule); }
  table.events td.time { color: var(--faint); }
  th, td { padding-right: .6rem; }
}
@media print {
  :root { --back: #ffffff; --card: #f5f7f9; --text: #000000; --faint: #444444; --rule: #bbbbbb; }
  main { max-width: none; padding: 0; }
  .chart, .gantt, ul.advice li, .failure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  * { print-color-adjust: exact; }
}
)css";

}  // namespace batchai::status
