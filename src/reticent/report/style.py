"""The look of every page we write to a file: one sheet, light and dark, no network."""

STYLE = """
:root{--ink:#1c2530;--soft:#5a6773;--line:#dfe4e8;--paper:#fff;--tint:#f4f7f9;--accent:#1f5f8b;--mark:#b3541e}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa7b3;--line:#323c46;--paper:#14191e;--tint:#1b2229;
--accent:#6db3e2;--mark:#f0a06a}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:880px;margin:0 auto;padding:32px 20px 80px}h1{font-size:1.7rem;line-height:1.2;margin:.2em 0}
h2{font-size:1.2rem;margin:2.2em 0 .6em;padding-top:.6em;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.4em 0 .3em}
p,li{max-width:68ch}.lead{font-size:1.06rem}.soft{color:var(--soft)}
.warning{border-left:4px solid var(--mark);padding:14px 20px;background:var(--tint);border-radius:4px}
.promise{background:var(--tint);border-left:4px solid var(--accent);padding:14px 20px;border-radius:4px;margin:18px 0}
table{border-collapse:collapse;width:100%;font-size:.92rem;margin:.6em 0}th,td{text-align:left;padding:5px 10px 5px 0;
border-bottom:1px solid var(--line);vertical-align:top}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:0 0 18px}.pair{max-width:640px}figcaption{font-size:.88rem;color:var(--soft);margin-bottom:4px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:10px 28px}
svg.bars{width:100%;height:auto}svg rect{fill:var(--accent)}svg .label{text-anchor:end;font-size:12px;fill:var(--ink)}
svg .middle{text-anchor:middle;font-size:11px;fill:var(--ink)}svg tspan.dark{fill:var(--paper)}
svg .value{text-anchor:end;font-size:12px;fill:var(--soft)}svg .start{font-size:11px;fill:var(--ink)}
svg .tick{text-anchor:middle;font-size:11px;fill:var(--soft)}svg .grid{stroke:var(--line);fill:none}
svg .whisker{stroke:var(--mark);stroke-width:1.6;fill:none}svg .typical{stroke-width:4.5}
svg .measured{stroke-dasharray:3 2}
.gauge{height:14px;background:var(--tint);border:1px solid var(--line);border-radius:7px;
overflow:hidden;max-width:420px}
.gauge span{display:block;height:100%;background:var(--accent)}.wide{overflow-x:auto}
details{margin:.8em 0}summary{cursor:pointer;color:var(--accent)}
@media print{main{padding:0}h2{break-after:avoid}}
"""
