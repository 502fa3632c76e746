"""Results turned into text: tables, JSON, CSV, Markdown. Reads results and computes nothing.

Every command has a function that returns one `Report`; `render` writes any report in any format.
"""

from __future__ import annotations

from .blocks import Block, Column, Facts, Plain, Report, Sheet
from .render import FORMATS, render

__all__ = ["FORMATS", "Block", "Column", "Facts", "Plain", "Report", "Sheet", "render"]
