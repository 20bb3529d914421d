"""The project's SVG files as reportlab drawings: plain shapes, no style sheets."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

_SVG = "{http://www.w3.org/2000/svg}"


def _number(text: str | None, default: float = 0.0) -> float:
    return float(text) if text else default


class Drawing:
    """An SVG file of plain shapes as a reportlab drawing."""

    def __init__(self, path: Path, width: float) -> None:
        from reportlab.graphics import shapes

        self.shapes = shapes
        root = ET.parse(path).getroot()
        _, _, w, h = map(float, root.get("viewBox", "0 0 100 100").split())
        self.scale, self.height = width / w, h
        self.result = shapes.Drawing(width, h * self.scale)
        self.named = {one.get("id"): one for one in root.iter(f"{_SVG}g") if one.get("id")}
        self._children(root, self.scale, 0.0, 0.0)

    def _children(self, parent: ET.Element, scale: float, x: float, y: float) -> None:
        for one in parent:
            kind = one.tag.removeprefix(_SVG)
            if kind == "g":
                self._children(one, *self._moved(one, scale, x, y))
            elif kind == "use":
                target = self.named[(one.get("href") or "").lstrip("#")]
                self._children(target, scale, x + scale * _number(one.get("x")), y + scale * _number(one.get("y")))
            elif kind != "defs":
                self._shape(kind, one, scale, x, y)

    @staticmethod
    def _moved(one: ET.Element, scale: float, x: float, y: float) -> tuple[float, float, float]:
        for name, values in re.findall(r"(\w+)\(([^)]*)\)", one.get("transform", "")):
            numbers = [float(value) for value in values.replace(",", " ").split()]
            if name == "translate":
                x, y = x + scale * numbers[0], y + scale * numbers[1]
            elif name == "scale":
                scale *= numbers[0]
        return scale, x, y

    def _shape(self, kind: str, one: ET.Element, scale: float, x: float, y: float) -> None:
        top = self.height * self.scale

        def at(px: float, py: float) -> tuple[float, float]:
            return x + scale * px, top - (y + scale * py)

        def value(name: str) -> float:
            return _number(one.get(name))

        shapes, made = self.shapes, None
        if kind == "rect":
            left, bottom = at(value("x"), value("y") + value("height"))
            radius = scale * value("rx")
            made = shapes.Rect(left, bottom, scale * value("width"), scale * value("height"), radius, radius)
        elif kind == "circle":
            made = shapes.Circle(*at(value("cx"), value("cy")), scale * value("r"))
        elif kind == "line":
            made = shapes.Line(*at(value("x1"), value("y1")), *at(value("x2"), value("y2")))
        elif kind == "polygon":
            numbers = [float(n) for n in (one.get("points") or "").replace(",", " ").split()]
            made = shapes.Polygon([c for i in range(0, len(numbers), 2) for c in at(numbers[i], numbers[i + 1])])
        elif kind == "path":
            made = self._path(one.get("d") or "", at)
        elif kind == "text":
            bold = one.get("font-weight") == "bold"
            anchor = one.get("text-anchor") or "start"
            made = shapes.String(
                *at(value("x"), value("y")), one.text or "", fontName="Sans-Bold" if bold else "Sans",
                fontSize=0.94 * scale * _number(one.get("font-size"), 14), textAnchor=anchor,
            )  # fmt: skip
        if made is not None:
            self._paint(made, kind, one, scale)
            self.result.add(made)

    def _path(self, text: str, at: Any) -> Any:
        path = self.shapes.Path()
        words = iter(re.findall(r"[A-Za-z]|-?\d*\.?\d+", text))
        here, command = (0.0, 0.0), ""

        def more(count: int, first: str) -> list[float]:
            return [float(first), *(float(next(words)) for _ in range(count - 1))]

        for word in words:
            if word.isalpha():
                command = word
                if command == "Z":
                    path.closePath()
                continue
            if command in ("M", "L"):
                n = more(2, word)
                here = (n[0], n[1])
                (path.moveTo if command == "M" else path.lineTo)(*at(*here))
                command = "L"
            elif command in ("H", "V"):
                here = (float(word), here[1]) if command == "H" else (here[0], float(word))
                path.lineTo(*at(*here))
            elif command == "C":
                n = more(6, word)
                path.curveTo(*at(n[0], n[1]), *at(n[2], n[3]), *at(n[4], n[5]))
                here = (n[4], n[5])
            elif command == "Q":
                n = more(4, word)
                one = (here[0] + 2 / 3 * (n[0] - here[0]), here[1] + 2 / 3 * (n[1] - here[1]))
                two = (n[2] + 2 / 3 * (n[0] - n[2]), n[3] + 2 / 3 * (n[1] - n[3]))
                path.curveTo(*at(*one), *at(*two), *at(n[2], n[3]))
                here = (n[2], n[3])
        return path

    @staticmethod
    def _paint(made: Any, kind: str, one: ET.Element, scale: float) -> None:
        from reportlab.lib.colors import HexColor

        def colour(name: str, default: str | None) -> Any:
            text = one.get(name, default)
            return None if text in (None, "none") else HexColor(text)

        fill = colour("fill", "#000000")
        if kind != "line":
            made.fillColor = fill
        if kind == "text":
            return
        made.strokeColor = colour("stroke", None)
        made.strokeWidth = scale * _number(one.get("stroke-width"), 1.0)
        if one.get("stroke-dasharray"):
            made.strokeDashArray = [
                scale * float(n) for n in (one.get("stroke-dasharray") or "").replace(",", " ").split()
            ]
