#include "suite/report/html_parts.h"

namespace benchsuite::html {

std::string_view style_sheet() {
  return R"css(
:root{color-scheme:light dark;
--bg:#fbfaf7;--card:#fff;--ink:#22262b;--soft:#5d6570;--line:#e3e0d9;--track:#eeece6;
--ok:#2c7a4b;--warn:#9a6700;--bad:#b3261e;--mute:#5d6570;
--ok-bg:#e3f2e8;--warn-bg:#fbf0d3;--bad-bg:#fbe4e1;--mute-bg:#edebe6;
--forward:#6fa3dc;--backward:#2f5d9b;--recompute:#f0a32f;--optimizer:#8e6bbf;
--tensor:#d4526e;--tensor_recompute:#a8451c;--pipeline:#2a9d8f;--data:#7a9a3a;--embedding:#b9b04a;--global:#7d8597;
--bubble:#e6e3dc;
--m0:#6fa3dc;--m1:#e8a94c;--m2:#8e6bbf;--m3:#b99bd8;--m4:#4f9d69;--m5:#d4526e;--m6:#2a9d8f;--m7:#9aa2ad;--m8:#6b5b4a;
--on:#fff}
@media screen and (prefers-color-scheme:dark){:root{
--bg:#16181b;--card:#1d2024;--ink:#e4e6e9;--soft:#9aa3ad;--line:#31353b;--track:#282c31;
--ok:#6fcf97;--warn:#e5b454;--bad:#ff8a80;--mute:#9aa3ad;
--ok-bg:#1b3326;--warn-bg:#382d14;--bad-bg:#3d201e;--mute-bg:#2a2e33;
--forward:#7fb2e8;--backward:#3f74b8;--recompute:#e79a2b;--optimizer:#a283d0;
--tensor:#df6680;--tensor_recompute:#bf5a2c;--pipeline:#35ae9f;--data:#8aab48;--embedding:#c4bb58;--global:#8b93a3;
--bubble:#33373d}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums;font-feature-settings:"tnum"}
main{max-width:1200px;margin:0 auto;padding:28px 24px 64px}
h1{font-size:1.55rem;line-height:1.25;margin:0 0 .35em;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.3rem;line-height:1.3;margin:2.6em 0 .3em;font-weight:650;letter-spacing:-.01em}
h3{font-size:1.05rem;margin:2.2em 0 .5em;font-weight:650}
h4{font-size:.95rem;margin:1.4em 0 .3em;font-weight:650}
h5,h6{font-size:.9rem;margin:1.2em 0 .2em}
p{margin:.4em 0 .8em;max-width:78ch}
.soft{color:var(--soft)}.small{font-size:.85rem}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;
font-size:.88em}
pre{background:var(--track);padding:.7em .9em;border-radius:6px;overflow-x:auto;margin:.5em 0 1em;line-height:1.45}
pre.cmd{white-space:pre-wrap;overflow-wrap:anywhere}
code{background:var(--track);padding:.08em .3em;border-radius:3px}pre code{background:none;padding:0}
blockquote{margin:.6em 0;padding:.1em 0 .1em 1em;border-left:3px solid var(--line);color:var(--soft)}
.verdict{border:1px solid var(--line);border-left:6px solid var(--tone);background:var(--card);border-radius:8px;
padding:20px 22px 14px}
.verdict p{margin:.2em 0;max-width:none}
.t-ok{--tone:var(--ok);--tone-bg:var(--ok-bg)}.t-warn{--tone:var(--warn);--tone-bg:var(--warn-bg)}
.t-bad{--tone:var(--bad);--tone-bg:var(--bad-bg)}.t-mute{--tone:var(--mute);--tone-bg:var(--mute-bg)}
.pill{display:inline-block;padding:.05em .6em;border-radius:99px;background:var(--tone-bg);color:var(--tone);
font-weight:650;font-size:.78rem;
letter-spacing:.03em;vertical-align:.1em;white-space:nowrap}
h1 .pill,h2 .pill{font-size:.62em;vertical-align:.22em}
ul.fails{list-style:none;padding:0;margin:.4em 0}
ul.fails li{padding:.55em 0 .55em;border-top:1px solid var(--line)}ul.fails li:first-child{border-top:0}
ul.fails p{margin:.15em 0 0}
.scroll{overflow-x:auto;margin:.4em 0 1em;-webkit-overflow-scrolling:touch}
table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.4}
th,td{padding:.42em .7em;text-align:right;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
th{font-weight:600;color:var(--soft);font-size:.8rem;vertical-align:bottom}
th.l,td.l{text-align:left}td.wide{white-space:normal;min-width:17em}
th:first-child,td:first-child{padding-left:2px}
.tight td{padding-top:.16em;padding-bottom:.16em;border-bottom:0}.tight .same{color:var(--ok)}
tr.group td{background:none;padding-top:.9em;border-bottom:1px solid var(--line);font-weight:600}
td .sub{display:block;color:var(--soft);font-size:.82rem;white-space:normal;font-weight:400;min-width:19em;
max-width:26em}
.variants td,.variants th{padding-left:.45em;padding-right:.45em}.variants td .sub{min-width:14.5em}
td.flag{color:var(--bad);font-weight:650}
.legend{display:flex;flex-wrap:wrap;gap:.25em 1.1em;font-size:.83rem;color:var(--soft);margin:.3em 0 .9em;padding:0;
list-style:none}
.legend li{display:flex;align-items:center;gap:.45em}
.key{width:.85em;height:.85em;border-radius:2px;background:var(--c);flex:none}
.k-forward{--c:var(--forward)}.k-backward{--c:var(--backward)}.k-recompute{--c:var(--recompute)}
.k-optimizer{--c:var(--optimizer)}
.k-tensor{--c:var(--tensor)}.k-tensor_recompute{--c:var(--tensor_recompute)}.k-pipeline{--c:var(--pipeline)}
.k-data{--c:var(--data)}
.k-embedding{--c:var(--embedding)}.k-global{--c:var(--global)}.k-bubble{--c:var(--bubble)}
.m0{--c:var(--m0)}.m1{--c:var(--m1)}.m2{--c:var(--m2)}.m3{--c:var(--m3)}.m4{--c:var(--m4)}.m5{--c:var(--m5)}
.m6{--c:var(--m6)}.m7{--c:var(--m7)}.m8{--c:var(--m8)}
svg{display:block}svg rect{fill:var(--c)}svg text{font-size:11px;fill:var(--ink);font-family:inherit}
svg .track{fill:var(--track)}svg .on{fill:var(--on);font-size:10.5px;text-anchor:middle;paint-order:stroke;
stroke:rgba(0,0,0,.38);stroke-width:2px;stroke-linejoin:round}
svg .dark{stroke:none;fill:var(--soft)}
svg .rule{stroke:var(--soft);stroke-width:1;fill:none}svg .cap{stroke:var(--ink);stroke-width:1.5;
stroke-dasharray:3 2;fill:none}
.up{--c:var(--bad)}.down{--c:var(--ok)}.whole{--c:var(--backward)}
.why{border:1px solid var(--line);background:var(--card);border-radius:8px;padding:16px 20px 12px;
margin:.8em 0 1.2em;break-inside:avoid}
.why h4{margin:0 0 .2em}.why .one{margin:.1em 0 .9em}
.bars{display:grid;grid-template-columns:minmax(9em,auto) minmax(0,1fr) auto;column-gap:1em;row-gap:5px;
align-items:center;font-size:.88rem}
.bars .v{text-align:right;white-space:nowrap}
.fall{grid-template-columns:minmax(12em,22em) minmax(0,1fr) 5.5em;row-gap:0}
.fall>div{padding:4px 0}.fall .n{line-height:1.3}.fall .n span{display:block;color:var(--soft);font-size:.8rem;
line-height:1.35}
.fall .b{padding:0;align-self:stretch;position:relative;min-height:30px}.fall .b svg{position:absolute;inset:0;
width:100%;height:100%}
.fall .total{font-weight:650}
figure{margin:0 0 1.5em;break-inside:avoid}figcaption{margin:0 0 .35em;font-size:.88rem;line-height:1.4}
figcaption b{font-weight:650}figcaption .soft{margin-left:.5em}
.gantt{overflow-x:auto}.gantt svg{width:100%;min-width:900px;height:auto}
.gantt path{fill:none;stroke:var(--c);stroke-width:22}.gantt .cut{stroke:var(--bg);stroke-width:1;
vector-effect:non-scaling-stroke}
.gantt text{font-size:11px;fill:var(--soft)}.gantt .on{font-size:10px;fill:var(--on)}
.zoom{margin:.7em 0 .3em}
[data-q]{cursor:pointer}button[data-q]{all:unset;cursor:pointer;border-radius:3px}
button[data-q]:hover{text-decoration:underline dotted;text-underline-offset:.22em}
button:focus-visible,canvas:focus-visible{outline:2px solid var(--forward);outline-offset:1px}
.live-gantt{display:none}.live .live-gantt{display:block;min-height:60px}.live .still{display:none}
.live-gantt canvas{width:100%;display:block;touch-action:pan-y;cursor:crosshair}
.tools{display:flex;flex-wrap:wrap;gap:.3em .5em;align-items:center;margin:.1em 0 .5em;font-size:.8rem}
.tools button,dialog header button{font:inherit;color:var(--ink);background:var(--track);border:1px solid var(--line);
border-radius:5px;padding:.1em .7em;cursor:pointer}
#tip{position:fixed;z-index:9;pointer-events:none;white-space:pre-line;max-width:min(30em,calc(100vw - 8px));
background:var(--card);color:var(--ink);border:1px solid var(--line);border-radius:6px;padding:.35em .6em;
font-size:.8rem;line-height:1.4;box-shadow:0 2px 10px rgba(0,0,0,.18)}
dialog{width:min(46em,calc(100vw - 20px));max-width:none;max-height:min(86vh,60em);overflow:auto;border:1px solid var(--line);
border-radius:10px;background:var(--card);color:var(--ink);padding:14px 20px 18px;font-size:.9rem}
dialog::backdrop{background:rgba(0,0,0,.35)}dialog header{display:flex;justify-content:flex-end;gap:.5em}
dialog header .back{margin-right:auto}dialog h4{margin:.3em 0 .1em;font-size:1rem;overflow-wrap:anywhere}
dialog .value{font-size:1.15rem;font-weight:650;margin:0 0 .7em;overflow-wrap:anywhere}
dialog dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.4em 1.1em;margin:0}
dialog dt{color:var(--soft)}dialog dd{margin:0;overflow-wrap:anywhere}dialog dl+dl{margin-top:.5em}
dialog table{font-size:.85rem}dialog td{padding:.15em .8em .15em 0;white-space:normal;overflow-wrap:anywhere}
dialog td button[data-q]{text-decoration:underline dotted;text-underline-offset:.22em}
.comm{width:110px;margin-top:4px}.hid{--c:var(--mute);opacity:.5}
.loss{display:grid;grid-template-columns:auto minmax(0,1fr);gap:2px 8px;font-size:.8rem;color:var(--soft)}
.loss svg{width:100%;height:220px;border-left:1px solid var(--line);border-bottom:1px solid var(--line)}
.loss path{fill:none;stroke:var(--c);stroke-width:1.6;vector-effect:non-scaling-stroke}
.loss .y{display:flex;flex-direction:column;justify-content:space-between;text-align:right}
.loss .x{grid-column:2;display:flex;justify-content:space-between}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,350px),1fr));gap:6px 34px}
.cards figure{margin:0 0 1.1em}.cards .bars{grid-template-columns:4.4em minmax(0,1fr) 5.2em;row-gap:3px;
font-size:.83rem}
details{margin:.2em 0 .8em}summary{cursor:pointer;color:var(--soft);font-size:.88rem}
.range{width:150px;margin-top:3px}td.wide .sub{max-width:none;min-width:0;overflow-wrap:anywhere}
td .sub b{color:var(--ink);font-weight:600}.range .pass{fill:var(--ok);opacity:.32}.range .warn{fill:var(--warn);
opacity:.26}.range .mark{fill:var(--ink)}
ul.claims{padding-left:1.2em}ul.claims li{margin:.45em 0;max-width:90ch}
.note{max-width:78ch}.note table{width:auto}
footer{margin-top:3.5em;padding-top:1em;border-top:1px solid var(--line);font-size:.85rem;color:var(--soft);
overflow-wrap:anywhere}
footer dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1.2em;margin:0}footer dd{margin:0}
@media (max-width:640px){body{font-size:14px}main{padding:16px 14px 48px}.verdict{padding:14px 16px 10px}
.why{padding:12px 14px 8px}
.bars,.fall{grid-template-columns:minmax(0,1fr) auto;grid-auto-flow:dense}
.stack .n,.fall .n{grid-column:1}.stack .v,.fall .v{grid-column:2}.stack .b,.fall .b{grid-column:1/-1}
.stack .b{margin-bottom:5px}.fall .b{min-height:22px}
.cards .bars{grid-template-columns:4.2em minmax(0,1fr) 5em}
footer dl{grid-template-columns:minmax(0,1fr);gap:0}footer dd{margin-bottom:.35em;color:var(--ink)}
dialog{padding:12px 14px}dialog dl{grid-template-columns:minmax(0,1fr);gap:.1em}dialog dd{margin-bottom:.5em}}
@media print{.live .live-gantt{display:none}.live .still{display:block}dialog,#tip{display:none}
body{background:#fff;font-size:10pt}main{max-width:none;padding:0}.scroll,.gantt{overflow:visible}
.gantt svg{min-width:0}
table{font-size:7.5pt}th,td{padding:.3em .35em}th{font-size:7pt;white-space:normal}td .sub{min-width:0;
font-size:6.8pt}.range{width:80px}td.wide{min-width:0}.cards{grid-template-columns:1fr 1fr}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}h2,h3,h4{break-after:avoid}tr,li{break-inside:avoid}}
)css";
}

}  // namespace benchsuite::html
