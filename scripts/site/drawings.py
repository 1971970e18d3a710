"""The guide's pictures: a few boxes and arrows each, coloured by the page they stand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

SHEET = """
#{id} text{{font:14px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink,#1c2530)}}
#{id} .small{{font-size:12px;fill:var(--soft,#5a6773)}}
#{id} .strong{{font-weight:600}}#{id} .middle{{text-anchor:middle}}
#{id} .box{{fill:var(--tint,#f4f7f9);stroke:var(--line,#b9c3cc);stroke-width:1.5}}
#{id} .private{{fill:none;stroke:var(--mark,#b3541e);stroke-width:2;stroke-dasharray:6 4}}
#{id} .accent{{fill:var(--tint,#f4f7f9);stroke:var(--accent,#1f5f8b);stroke-width:2}}
#{id} .arrow{{fill:none;stroke:var(--soft,#5a6773);stroke-width:1.6}}#{id} .paid{{stroke:var(--mark,#b3541e)}}
#{id} .head{{fill:var(--soft,#5a6773);stroke:none}}#{id} .paidhead{{fill:var(--mark,#b3541e);stroke:none}}
#{id} .markword{{fill:var(--mark,#b3541e)}}#{id} .accentword{{fill:var(--accent,#1f5f8b)}}
"""


@dataclass
class Drawing:
    """An SVG under construction; its style is confined to its own id."""

    name: str
    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, w: float, h: float, *lines: str, kind: str = "box", strong: bool = True) -> None:
        """A rounded box; its first line is strong, the others small."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>')
        top = y + h / 2 - 9 * (len(lines) - 1) + 5
        for place, line in enumerate(lines):
            style = "middle strong" if place == 0 and strong else "middle small"
            self.text(x + w / 2, top + 18 * place, line, style)

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        self.parts.append(f'<text class="{style}" x="{x}" y="{y}">{escape(words)}</text>')

    def arrow(self, *points: tuple[float, float], paid: bool = False) -> None:
        """A polyline with a head at its end."""
        path = " ".join(f"{x},{y}" for x, y in points)
        (ax, ay), (bx, by) = points[-2:]
        dx, dy = (bx > ax) - (bx < ax), (by > ay) - (by < ay)
        left, right = (bx - 9 * dx - 5 * dy, by - 9 * dy + 5 * dx), (bx - 9 * dx + 5 * dy, by - 9 * dy - 5 * dx)
        tone = (" paid", "paidhead") if paid else ("", "head")
        self.parts.append(f'<polyline class="arrow{tone[0]}" points="{path}"/>')
        corners = f"{bx},{by} {left[0]},{left[1]} {right[0]},{right[1]}"
        self.parts.append(f'<polygon class="{tone[1]}" points="{corners}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "arrow") -> None:
        self.parts.append(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" id="{self.name}" viewBox="0 0 {self.width} {self.height}">'
        style = SHEET.format(id=self.name).replace("\n", "")
        return "\n".join(
            [head, f"<title>{escape(self.title)}</title>", f"<style>{style}</style>", *self.parts, "</svg>\n"]
        )


def loop() -> Drawing:
    """Question, hypothesis, comparison, correction."""
    d = Drawing("loop", 820, 300, "The hypothesis loop")
    d.parts.append('<rect class="private" x="560" y="20" width="240" height="260" rx="12"/>')
    d.text(680, 44, "trusted kernel", "middle markword strong")
    d.box(20, 60, 150, 60, "question", "from anyone")
    d.box(240, 50, 200, 80, "hypothesis", "a public distribution", "over all possible records", kind="accent")
    d.box(240, 200, 200, 60, "fit", "public post-processing")
    d.box(590, 60, 180, 60, "curator", "compares, with noise")
    d.box(590, 132, 180, 50, "ledger", "charges first")
    d.box(590, 206, 180, 60, "table", "rows never leave")
    d.arrow((170, 80), (240, 80))
    d.arrow((240, 112), (205, 112), (205, 160), (95, 160), (95, 120))
    d.text(95, 180, "good enough: answer, free", "middle small")
    d.arrow((440, 80), (590, 80), paid=True)
    d.text(500, 70, "not good enough", "middle small")
    d.arrow((590, 108), (480, 108), (480, 230), (440, 230), paid=True)
    d.text(488, 230, "noisy", "small")
    d.text(488, 246, "numbers", "small")
    d.arrow((340, 200), (340, 130))
    d.text(350, 170, "corrected", "small")
    d.line(680, 182, 680, 206)
    d.line(680, 120, 680, 132)
    return d


def ladder() -> Drawing:
    """The steps of session.ask."""
    d = Drawing("ladder", 760, 330, "The ladder of answers")
    steps = (
        ("1  cache", "asked before, at least as well", "free", False),
        ("2  certificate", "an audit of a public snapshot covers it within the error", "free", False),
        ("3  derived", "a sum of cells that were measured before", "free", False),
        ("4  measured", "the marginal, the batch or the question itself, with fresh noise", "paid", True),
    )
    d.text(20, 24, "session.ask(question, error=a)", "strong")
    for place, (name, meaning, price, paid) in enumerate(steps):
        y = 44 + 64 * place
        d.box(20, y, 620, 44, kind="accent" if paid else "box")
        d.text(38, y + 27, name, "strong")
        d.text(170, y + 27, meaning, "small")
        d.text(700, y + 27, price, "middle strong " + ("markword" if paid else "accentword"))
        d.arrow((640, y + 22), (676, y + 22), paid=paid)
        if place < len(steps) - 1:
            d.arrow((60, y + 44), (60, y + 64))
            d.text(72, y + 59, "else", "small")
    d.text(20, 312, "What was measured is remembered and fitted: steps 1 to 3 then serve more questions.", "small")
    return d


def ledger() -> Drawing:
    """reserve, sample, settle, return over time."""
    d = Drawing("ledger", 760, 250, "The ledger's timeline")
    stages = (
        (30, "reserve", "charge on disk", "box"),
        (220, "sample", "noise, in memory", "private"),
        (410, "settle", "result on disk", "box"),
        (600, "return", "what is recorded", "accent"),
    )
    d.line(30, 130, 740, 130)
    for x, name, meaning, kind in stages:
        d.box(x - 5, 40, 150, 60, name, meaning, kind=kind)
        d.line(x + 70, 100, x + 70, 130)
        d.parts.append(f'<circle class="head" cx="{x + 70}" cy="130" r="5"/>')
    for x in (175, 365, 555):
        d.arrow((x, 70), (x + 40, 70))
    d.text(15, 160, "dies before:", "small strong")
    d.text(15, 178, "nothing charged", "small")
    d.text(195, 160, "dies here:", "small strong")
    d.text(195, 178, "charged; nothing left;", "small")
    d.text(195, 194, "the same key redeems it once", "small")
    d.text(195, 210, "with fresh noise", "small")
    d.text(455, 160, "dies here:", "small strong")
    d.text(455, 178, "charged; the same key gets", "small")
    d.text(455, 194, "the recorded result, to the bit", "small")
    d.text(
        15,
        240,
        "After each write on disk a mark goes to the anchor, a file on another volume: an old copy is noticed.",
        "small",
    )
    return d


def junction_tree() -> Drawing:
    """Measured sets, the graph they span, and the tree of cliques."""
    d = Drawing("junction-tree", 760, 290, "From measured sets to a junction tree")
    d.text(20, 26, "measured together", "strong")
    for place, names in enumerate(
        ("age, education", "education, income", "age, income", "income, ward", "ward, nights")
    ):
        d.box(20, 42 + 44 * place, 160, 34, names, strong=False)
    d.text(235, 26, "what touches what", "strong")
    points = {"age": (260, 70), "education": (260, 190), "income": (370, 130), "ward": (370, 220), "nights": (260, 255)}
    for a, b in (
        ("age", "education"),
        ("education", "income"),
        ("age", "income"),
        ("income", "ward"),
        ("ward", "nights"),
    ):
        d.line(*points[a], *points[b])
    for name, (x, y) in points.items():
        d.parts.append(f'<circle class="accent" cx="{x}" cy="{y}" r="9"/>')
        d.text(x, y - 14, name, "middle small")
    d.text(500, 26, "tree of cliques", "strong")
    d.box(480, 44, 240, 46, "age, education, income", kind="accent")
    d.box(480, 134, 240, 46, "income, ward", kind="accent")
    d.box(480, 224, 240, 46, "ward, nights", kind="accent")
    d.line(600, 90, 600, 134)
    d.line(600, 180, 600, 224)
    d.text(610, 117, "income", "small")
    d.text(610, 207, "ward", "small")
    d.arrow((190, 150), (228, 150))
    d.arrow((425, 150), (470, 150))
    return d


DRAWINGS = (loop, ladder, ledger, junction_tree)


def draw_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for draw in DRAWINGS:
        drawing = draw()
        (folder / f"{drawing.name}.svg").write_text(drawing.svg())
