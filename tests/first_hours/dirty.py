"""A raw file as offices export it: mixed case, blanks, currency signs, two date formats, ids, several rows a person."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np

PERSONS = 2000
WARDS = ("Cardiology", "Oncology", "Surgery", "General")
EDITED = """
["Visit Date"]
edges = [2024-01-01, 2024-07-01, 2025-01-01, 2025-07-01, 2026-01-01]
format = ["%d/%m/%Y"]

[Sex]
values = ["Female", "Male"]
strip = true
casefold = true
aliases = {F = "Female", M = "Male"}
missing = [""]
nullable = true

[Age]
whole = true
edges = [0, 18, 40, 65, 120]

[Charge]
type = "numeric"
edges = []
lower = 0
upper = 100000
strip = true
thousands = ","
units = ["$", "USD"]

[Ward]
type = "categorical"
values = []
strip = true
casefold = true
"""
"""What a custodian makes of the draft: codes from the codebook, two columns left to private discovery."""


def write_visits(path: Path) -> None:
    generator = np.random.default_rng(20)
    lines = ["Visit ID,Patient No,Visit Date,Sex,Age,Charge,Ward"]
    for person in range(PERSONS):
        sex, age = generator.choice(["Female", "Male"]), int(generator.integers(0, 95))
        for _ in range(1 + generator.poisson(1.2)):
            day = datetime.date(2024, 1, 1) + datetime.timedelta(days=int(generator.integers(0, 730)))
            date = generator.choice([day.isoformat(), day.strftime("%d/%m/%Y")])
            spelled = generator.choice([sex, sex.upper(), f" {sex.lower()}", sex[0], ""], p=[0.3, 0.3, 0.2, 0.18, 0.02])
            charge = float(np.round(generator.lognormal(5.5, 1), 2))
            written = generator.choice([f"${charge:,.2f}", f"{charge:.2f}", f" USD {charge:,.2f} "])
            ward = str(generator.choice(WARDS))
            ward = generator.choice([ward, ward.upper(), f"{ward.lower()} "])
            lines.append(f'V{len(lines):06d},{person + 10_000},{date},{spelled},{age},"{written}",{ward}')
    path.write_text("\n".join(lines) + "\n")
