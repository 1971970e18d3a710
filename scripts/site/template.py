"""The frame around every page: menu, search, light and dark, no network."""

from __future__ import annotations

from html import escape

from scripts.site.navigation import Place
from scripts.site.rendering import Page

from reticent.report.style import STYLE

SHEET = (
    STYLE
    + """
body{display:grid;grid-template-columns:260px minmax(0,1fr);min-height:100vh}
nav.menu{border-right:1px solid var(--line);background:var(--tint);padding:22px 18px;position:sticky;top:0;height:100vh;
overflow-y:auto;font-size:.92rem}nav.menu a{color:var(--ink);text-decoration:none;display:block;padding:3px 8px;
border-radius:4px}nav.menu a:hover{color:var(--accent)}nav.menu a.here{background:var(--paper);color:var(--accent);
font-weight:600}nav.menu .brand{font-size:1.15rem;font-weight:700;padding:0 8px 10px}
nav.menu h2{font-size:.74rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);border:0;
margin:1.3em 8px .3em;padding:0}nav.menu .inner a{font-size:.86rem;padding:2px 8px 2px 22px;color:var(--soft)}
nav.menu input{width:100%;padding:6px 9px;border:1px solid var(--line);border-radius:5px;background:var(--paper);
color:var(--ink);font:inherit}#found a small{color:var(--soft);display:block}
main{width:100%;max-width:1040px;margin:0;padding:34px 44px 80px}main a{color:var(--accent)}
h1:first-child{margin-top:0}h2{scroll-margin-top:12px}
code{font:.86em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
p code,li code,td code,h2 code,h3 code{background:var(--tint);border-radius:3px;padding:1px 4px}
td code{white-space:nowrap}
pre{background:var(--tint);border:1px solid var(--line);border-radius:6px;padding:12px 14px;overflow-x:auto;
margin:.7em 0}pre.output{background:none;border-style:dashed;color:var(--soft)}pre.code+pre.output{margin-top:-.3em}
pre .k,pre .kn,pre .kc,pre .ow,pre .kt{color:var(--accent);font-weight:600}pre .s,pre .s1,pre .s2,pre .sd,pre .sa,
pre .se{color:var(--mark)}pre .c,pre .c1,pre .cm{color:var(--soft);font-style:italic}pre .mi,pre .mf{color:var(--mark)}
pre .nt,pre .nf,pre .nc{color:var(--accent)}
figure{margin:1.2em 0}figure svg{width:100%;height:auto;max-height:460px}figcaption{text-align:center;margin-top:4px}
figure.plot img{width:min(100%,640px);display:block;margin:0 auto}
figure.screen img{width:100%;display:block;border:1px solid var(--line);border-radius:6px}
.turn{display:flex;justify-content:space-between;border-top:1px solid var(--line);margin-top:3em;padding-top:1em}
.entry{border-left:3px solid var(--line);padding-left:14px;margin:1.2em 0 1.8em}.entry pre{margin-top:.2em}
.member{margin:.5em 0 .5em 4px}.member p{margin:.1em 0 .1em 1.2em;color:var(--soft)}
.menu summary{display:none}
@media (max-width:820px){body{display:block}nav.menu{position:static;height:auto;padding:12px 18px}
main{padding:20px 18px 60px}.menu summary{display:block;font-weight:700;padding:4px 8px}}
@media print{nav.menu,.turn{display:none}body{display:block}}
"""
)

SCRIPT = """
const field = document.getElementById('search'), found = document.getElementById('found');
if (!matchMedia('(max-width:820px)').matches) document.querySelector('nav.menu details').open = true;
field.addEventListener('input', () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  found.replaceChildren();
  if (!words.length) return;
  const hits = INDEX.filter(e => words.every(w => (e.text + ' ' + e.page).toLowerCase().includes(w))).slice(0, 12);
  for (const hit of hits) {
    const link = document.createElement('a'), page = document.createElement('small');
    link.href = BASE + hit.href; link.textContent = hit.text; page.textContent = hit.page;
    link.append(page); found.append(link);
  }
  if (!hits.length) found.textContent = 'nothing found';
});
"""


def framed(place: Place, page: Page, places: list[Place]) -> str:
    """A whole HTML document."""
    base = "../" * place.target.count("/")
    title = "Reticent" if place.target == "index.html" else f"{place.title} · Reticent"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>
<link rel="stylesheet" href="{base}site.css"></head>
<body><nav class="menu" aria-label="Pages"><details><summary>Reticent: pages</summary>
<a class="brand" href="{base}index.html">Reticent</a>
<input id="search" type="search" placeholder="Search headings" aria-label="Search headings"><div id="found"></div>
{_menu(place, page, places, base)}</details></nav>
<main>{page.html}{_turn(place, places, base)}</main>
<script>const BASE = '{base}';</script><script src="{base}index.js"></script><script src="{base}site.js"></script>
</body></html>
"""


def _menu(place: Place, page: Page, places: list[Place], base: str) -> str:
    parts, section = [], ""
    for other in places:
        if other.section != section:
            section = other.section
            parts.append(f"<h2>{escape(section)}</h2>")
        here = ' class="here" aria-current="page"' if other == place else ""
        name = "Overview" if other.target == "index.html" else other.title.partition(":")[0]
        parts.append(f'<a href="{base}{other.target}"{here}>{escape(name)}</a>')
        if other == place:
            inner = [f'<a href="#{anchor}">{escape(text)}</a>' for level, anchor, text in page.headings if level == 2]
            parts.append(f'<div class="inner">{"".join(inner)}</div>')
    return "\n".join(parts)


def _turn(place: Place, places: list[Place], base: str) -> str:
    at = places.index(place)
    before = places[at - 1] if at else None
    after = places[at + 1] if at + 1 < len(places) else None
    left = f'<a href="{base}{before.target}">← {escape(before.title)}</a>' if before else ""
    right = f'<a href="{base}{after.target}">{escape(after.title)} →</a>' if after else ""
    return f'<div class="turn"><span>{left}</span><span>{right}</span></div>'
