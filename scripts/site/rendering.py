"""Markdown to HTML: anchors, highlighted code, checked links, drawings inlined so that they follow the colours."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from scripts.site.navigation import DOCS, ROOT

LEXERS = {"python": "python", "sh": "bash", "toml": "toml", "sql": "sql", "json": "json"}
DRAWN = DOCS / "guide" / "figures"
FORMATTER = HtmlFormatter(nowrap=True)


@dataclass
class Page:
    """Rendered content with what others may link to, what it links to, and what went wrong."""

    html: str = ""
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    """(level, anchor, text)"""
    links: list[tuple[str, str]] = field(default_factory=list)
    """(target page, anchor) of every internal link."""
    warnings: list[str] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    """Image files that the site must carry."""


def slug(text: str) -> str:
    """As GitHub makes anchors, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", unescape(text).lower()).strip().replace(" ", "-")


def highlighted(code: str, language: str) -> str:
    """One code block; output and plain text stay plain."""
    lexer = LEXERS.get(language)
    body = highlight(code, get_lexer_by_name(lexer), FORMATTER) if lexer else escape(code)
    kind = "output" if language == "output" else "code"
    return f'<pre class="{kind}"><code>{body}</code></pre>\n'


class Renderer:
    """Renders one page after another; `targets` maps source files to pages of the site."""

    def __init__(self, targets: dict[Path, str]) -> None:
        self._targets = targets
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

    def page(self, text: str, source: Path, target: str) -> Page:
        page = Page()
        tokens = self._markdown.parse(text)
        used: dict[str, int] = {}
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                self._anchor(token, tokens[place + 1], page, used)
            elif token.type == "fence":
                tokens[place] = _raw(highlighted(token.content, token.info.strip()))
            elif token.type == "inline" and token.children:
                token.children = [self._child(child, page, source, target) for child in token.children]
        html = self._markdown.renderer.render(tokens, self._markdown.options, {})
        page.html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
        return page

    def _anchor(self, token: Token, content: Token, page: Page, used: dict[str, int]) -> None:
        text = "".join(c.content for c in content.children or () if c.type in ("text", "code_inline"))
        anchor = slug(text)
        used[anchor] = used.get(anchor, 0) + 1
        if used[anchor] > 1:
            anchor = f"{anchor}-{used[anchor] - 1}"
        token.attrSet("id", anchor)
        page.headings.append((int(token.tag[1]), anchor, text))

    def _child(self, child: Token, page: Page, source: Path, target: str) -> Token:
        if child.type == "link_open":
            child.attrSet("href", self._link(str(child.attrGet("href")), page, source, target))
        if child.type == "image":
            return self._image(child, page, source, target)
        return child

    def _link(self, href: str, page: Page, source: Path, target: str) -> str:
        if href.startswith(("https://", "http://", "mailto:")):
            return href
        path, _, anchor = href.partition("#")
        file = (source.parent / path).resolve() if path else source
        if file not in self._targets:
            page.warnings.append(f"{source.relative_to(ROOT)}: link to {href}, which is no page of the site")
            return href
        page.links.append((self._targets[file], anchor))
        here = os.path.relpath(self._targets[file], os.path.dirname(target) or ".") if path else ""
        return here + (f"#{anchor}" if anchor else "")

    def _image(self, child: Token, page: Page, source: Path, target: str) -> Token:
        """Our drawings are inlined; plots and screenshots are files beside the pages."""
        file = (source.parent / str(child.attrGet("src"))).resolve()
        if file.suffix not in (".svg", ".png") or not file.exists():
            page.warnings.append(f"{source.relative_to(ROOT)}: image {child.attrGet('src')} is no SVG or PNG file here")
            return child
        described = escape(child.content)
        if file.parent == DRAWN and file.suffix == ".svg":
            shown = file.read_text().strip()
        else:
            page.plots.append(file)
            shown = f'<img src="{"../" * target.count("/")}figures/{file.name}" alt="{described}" loading="lazy">'
        kind = "screen" if file.suffix == ".png" else "plot"
        label = f'<figure role="img" aria-label="{described}">' if file.parent == DRAWN else f'<figure class="{kind}">'
        return _raw(f"{label}{shown}<figcaption>{described}</figcaption></figure>", inline=True)


def _raw(html: str, *, inline: bool = False) -> Token:
    return Token("html_inline" if inline else "html_block", "", 0, content=html)


def broken(pages: dict[str, Page]) -> list[str]:
    """Links to anchors that their page does not have."""
    anchors = {target: {anchor for _, anchor, _ in page.headings} for target, page in pages.items()}
    return [
        f"{target}: link to {goal}#{anchor}, which has no such heading"
        for target, page in pages.items()
        for goal, anchor in page.links
        if anchor and anchor not in anchors[goal]
    ]


def entries(pages: dict[str, Page], titles: dict[str, str]) -> list[dict[str, Any]]:
    """The search index: every heading with its page."""
    return [
        {"text": text, "page": titles[target], "href": f"{target}#{anchor}" if level > 1 else target}
        for target, page in pages.items()
        for level, anchor, text in _indexed(page.headings)
    ]


def _indexed(headings: Sequence[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    return [heading for heading in headings if heading[0] <= 3]
